"""Transplants between abductions of hidden groups: of the groups' prior, or of the whole map.

If a domain acts on the prior of U alone, ``P_s(u | x) ∝ π_s(u) p(x | u)``: abduction maps differ
in their intercepts only, so ``A_s - A_star`` lives on the constant feature and a transplant moves
every row by the same vector, along which U is read and the label is not.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regraft.core.transplant import Witness, biorthogonality, nearest_basis, transplant_bases
from regraft.core.whitening import Whitening

_SMALLEST_PRIOR = 1e-3


def fit_group_map(
    Z: Tensor, weight: Tensor, belief: Tensor, whitening: Whitening, ridge: float
) -> Tensor:
    """Return the linear abduction map (G, k) of the pooled rows: P(u | x) as a softmax head.

    Groups are taken for normal with a common covariance, which on whitened rows ``Z`` (n, k) is
    known but for the groups' means; ``belief`` (n, G) is P(u | x, y), ``weight`` (n,) sums to one.
    """
    mass = weight @ belief  # (G,)
    sums = (belief * weight.unsqueeze(1)).T @ Z[:, :-1].to(weight)
    return map_from_means(mass, sums / mass.unsqueeze(1), whitening, ridge)


def map_from_means(mass: Tensor, means: Tensor, whitening: Whitening, ridge: float) -> Tensor:
    """Return the same map from the mass (G,) of each group and its mean (G, k - 1)."""
    # The covariance within groups is the diagonal total one, less what the groups' means explain,
    # plus a ridge: its inverse needs only a system of the groups' size.
    variance = whitening.eigenvalues / whitening.scale.square() + 2.0 * ridge
    scaled = means / variance
    explained = scaled @ (means * mass.unsqueeze(1)).T
    coef = torch.linalg.solve(torch.eye(len(mass)).to(explained) - explained, scaled)
    intercept = mass.log() - 0.5 * (coef * means).sum(dim=1)
    return torch.cat([coef, intercept.unsqueeze(1)], dim=1)


def find_latent_witness(
    group_map: Tensor, head: Tensor, pooled: Tensor, shares: Tensor, target: Tensor
) -> Witness:
    """Return the transplants from every source to a target with other shares of the groups.

    ``group_map`` (G, d) is the abduction map at the prior ``pooled`` (G,), ``head`` (C, d) the
    deduction that must not move, ``shares`` (K, G) the sources' priors and ``target`` (G,) the
    target's. Shares below 0.001 count as that, because a log-prior must be finite.
    """
    contrasts = (group_map[1:] - group_map[0]).T  # (d, G - 1)
    deduction = (head[1:] - head[0]).T

    def abduction(prior: Tensor) -> Tensor:
        log_odds = prior.clamp_min(_SMALLEST_PRIOR).log() - pooled.clamp_min(_SMALLEST_PRIOR).log()
        shifted = contrasts.clone()
        shifted[-1] += log_odds[1:] - log_odds[0]
        return shifted

    sources = torch.stack([abduction(prior) for prior in shares])
    goal = abduction(target)
    basis = transplant_bases([*sources, goal], deduction).particular
    return _measure(goal, sources, deduction, basis)


def find_factorized_witness(target: Tensor, *, sources: Tensor, deduction: Tensor) -> Witness:
    """Return the transplants from abductions (K, G, d) to that of a target (G, d).

    Maps enter as contrasts with the first group and, of the ``deduction`` (G, C, d), with the first
    class, so r = G - 1. The basis has a last row of zeros, which keeps the constant coordinate. If
    features are too few for an exact basis, the one of least squares is taken, and the residuals
    say how far it is off.
    """
    goal, own = (target[1:] - target[0]).T, (sources[:, 1:] - sources[:, :1]).mT
    labels = (deduction[:, 1:] - deduction[:, :1]).flatten(0, 1).T
    constant = torch.zeros_like(labels[:, :1])
    constant[-1] = 1.0
    basis = nearest_basis([*own, goal], torch.cat([labels, constant], dim=1))
    return _measure(goal, own, labels, basis)


def _measure(goal: Tensor, sources: Tensor, deduction: Tensor, basis: Tensor) -> Witness:
    # A_star^T T_s = A_s^T, with T_s = I + L (A_s - A_star)^T.
    moved = goal.T + (goal.T @ basis) @ (sources - goal).mT
    misfit = torch.linalg.matrix_norm(moved - sources.mT) / torch.linalg.matrix_norm(sources)
    return Witness(
        basis=basis,
        target=goal,
        sources=sources,
        deduction=deduction,
        fit_residual=float(misfit.max()),
        biorthogonality_residual=biorthogonality(basis, goal, sources, deduction),
        rank=basis.shape[1],
    )
