"""Worst cases of a fixed predictor where U is observed: over abductions, and over any prior.

With U observed, a plausible target keeps P(y | x, u) and P(x) and changes P(u | x). Its surrogate
is the source rows, reweighted at each row's own u by the ratio of the target's abduction to the
sources'. Nothing is assumed about P(y | x), which mixes groups and is not logit-linear where
these disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regraft.core.ball_search import maximize_in_ball
from regraft.core.decompositions import pinv
from regraft.core.hull import Hull, fit_hull
from regraft.core.newton import log_probabilities
from regraft.premises.factorization import fix_gauge
from regraft.premises.multinomial_maps import OutcomeData, fit_map


@dataclass(frozen=True)
class GroupedAudit:
    """Largest mean loss over the abductions within a radius, and over any mix of groups."""

    radius: float  # nats: root mean square change of the logits of groups
    worst_case: float
    weights: dict[str, float]  # affine coefficients of the sources' abductions there
    worst_group: str  # the group with the largest mean loss
    any_prior: float  # that loss, the largest for any mix of these groups if P(x, y | u) stays
    n_groups: int  # number of groups that have rows


@dataclass(frozen=True)
class AbductionPlacement:
    """Position of a domain's abduction, in nats, relative to the mean of the sources'."""

    along: float  # within the affine hull of the sources: the radius that includes it
    off: float  # away from the hull, noise of the map included; a plausible target has little


@dataclass(frozen=True)
class AbductionHull:
    """Affine hull of K abductions, and the mix of their domains."""

    hull: Hull  # of (r, k) maps
    abductions: Tensor  # (K, r, k)
    mixing: Tensor  # (K, k) map of the domains: P(s | x)

    def log_mixture(self, Z: Tensor, group: Tensor) -> Tensor:
        """Return the log (n,) of sum_s P(s | x) P^s(u | x) at each row's own u (n,)."""
        parts = log_probabilities(Z, self.mixing).T  # (K, n)
        own = [log_probabilities(Z, a).gather(1, group.unsqueeze(1)).T for a in self.abductions]
        return torch.logsumexp(parts + torch.cat(own), dim=0)


def span_abductions(
    abductions: Tensor, Z: Tensor, domain: Tensor, weight: Tensor, penalty: float
) -> AbductionHull:
    """Return the hull of maps (K, k, r) of domains (n,) with rows ``Z`` (n, k) of weights (n,)."""
    maps = abductions.mT
    mixing = fit_map(OutcomeData(Z, domain, len(maps)), penalty).clone()
    mass = torch.zeros(len(maps), dtype=weight.dtype, device=weight.device)
    mass.index_add_(0, domain, weight)
    # The map counts rows; domains mix by their weights.
    mixing[:, -1] += (mass / torch.bincount(domain, minlength=len(maps))).log()
    return AbductionHull(fit_hull(maps, Z, weight), maps, mixing)


def audit_abductions(
    spanned: AbductionHull,
    loss: Tensor,
    Z: Tensor,
    group: Tensor,
    weight: Tensor,
    radius: float,
    *,
    names: Sequence[str],
    groups: Sequence[str],
) -> GroupedAudit:
    """Find the worst case of losses (n,) on rows ``Z`` (n, k) with groups (n,).

    The rows should differ from those that the hull and the predictor were fitted to, with domains
    in the same shares.
    """
    hull = spanned.hull
    base = weight.log() - spanned.log_mixture(Z, group)
    own = group.unsqueeze(1)

    def value_and_gradient(z: Tensor) -> tuple[float, Tensor]:
        z = z.detach().requires_grad_()
        log_share = log_probabilities(Z, hull.head(z)).gather(1, own).squeeze(1)
        value = torch.softmax(base + log_share, dim=0) @ loss
        (gradient,) = torch.autograd.grad(value, z)
        return float(value.detach()), gradient

    z, worst = maximize_in_ball(value_and_gradient, loss.new_zeros(len(hull.directions)), radius)
    mass = torch.zeros(len(groups), dtype=loss.dtype, device=loss.device)
    total = torch.zeros_like(mass)
    mass.index_add_(0, group, torch.ones_like(loss))
    total.index_add_(0, group, loss)
    by_group = torch.where(mass > 0, total / mass.clamp_min(1), -float("inf"))
    return GroupedAudit(
        radius=radius,
        worst_case=worst,
        weights=dict(zip(names, hull.coefficients(z).tolist(), strict=True)),
        worst_group=groups[int(by_group.argmax())],
        any_prior=float(by_group.max()),
        n_groups=int((mass > 0).sum()),
    )


def place_abduction(hull: Hull, abduction: Tensor, Z: Tensor, weight: Tensor) -> AbductionPlacement:
    """Place an abduction (k, r) relative to a hull, on rows ``Z`` (n, k) of weights (n,)."""
    scale = (weight / abduction.shape[1]).sqrt()  # (n,)
    shift = fix_gauge(abduction.T - hull.center, dim=0) @ Z.T * scale  # (r, n)
    moves = (hull.directions @ Z.T * scale).flatten(1)  # (m, r n)
    # A system of the hull's size, as the bits of long least squares depend on where memory lies.
    along = pinv(moves @ moves.T, hermitian=True) @ (moves @ shift.flatten())
    off = shift.flatten() - along @ moves
    return AbductionPlacement(float(along.norm()), float(off.norm()))
