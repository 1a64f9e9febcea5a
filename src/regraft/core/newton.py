"""Newton's method for the largest of finitely many weighted softmax risks.

One routine serves every convex fit of the library. A single weighted head is the case of one
target, and the learner's step of Algorithm 1 the case of several. Each answer has a duality gap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from regraft.core.decompositions import cholesky
from regraft.core.simplex import maximize_on_simplex
from regraft.core.whitening import conversion_chunks, row_chunks

_ARMIJO = 1e-4
_MAX_HALVINGS = 30
# Tolerances of the conjugate gradients: the first usually suffices, the others retry failed steps.
_CG_TOLERANCES = (3e-2, 1e-3, 3e-5)
_CG_ITERATIONS = 200


@dataclass(frozen=True)
class Solution:
    """Minimum of ``max_i risk_i(W) - offset_i + Σ ridge·(W - anchor)²``, up to ``gap``."""

    head: Tensor  # (C, k)
    mixture: Tensor  # (t,) the dual weights of the targets, on the simplex
    risks: Tensor  # (t,) weighted cross-entropy of each target, without offset and ridge
    value: float  # the objective at head
    gap: float  # value minus a proven lower bound of the minimum
    iterations: int


def logits(Z: Tensor, head: Tensor) -> Tensor:
    """Return the logits (n, C) of a linear head, in the precision of the head."""
    if Z.dtype == head.dtype:
        return Z @ head.T
    answer = head.new_empty((len(Z), len(head)))
    for rows in conversion_chunks(Z, head.dtype):
        # Not collected in a list: allocations between conversions would fragment the memory.
        answer[rows] = Z[rows].to(head.dtype) @ head.T
    return answer


def log_probabilities(Z: Tensor, head: Tensor) -> Tensor:
    """Return the log class probabilities (n, C) of a linear softmax head."""
    return torch.log_softmax(logits(Z, head), dim=1)


def losses(log_p: Tensor, y: Tensor) -> Tensor:
    """Return the cross-entropy (n,) of each row."""
    return -log_p.gather(1, y.unsqueeze(1)).squeeze(1)


class RisksAtHead(Protocol):
    """Sums over rows at one head (C, k), for t weighted risks."""

    @property
    def risks(self) -> Tensor:
        """Weighted cross-entropy (t,) of each target."""
        ...

    def gradients(self) -> Tensor:
        """Return the gradients (t, C, k) of the risks."""
        ...

    def hessian(self, mixture: Tensor) -> Tensor:
        """Return the Hessian (C·k, C·k) of the risks mixed by ``mixture`` (t,)."""
        ...

    def curvature(self, mixture: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return the diagonal (C, k) of that Hessian, and its product with (b, C, k)."""
        ...


class WeightedRisks(Protocol):
    """The t weighted risks that a search minimizes the largest of."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and t."""
        ...

    def at(self, head: Tensor) -> RisksAtHead:
        """Return the sums over the rows at ``head`` (C, k)."""
        ...


def minimax_newton(
    Z: Tensor,
    y: Tensor,
    weights: Tensor,
    *,
    ridge: float | Tensor,
    start: Tensor,
    anchor: Tensor | None = None,
    offsets: Tensor | None = None,
    mixture: Tensor | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 60,
) -> Solution:
    """Minimize the largest of t weighted risks over heads W (C, k), of rows in memory.

    ``Z`` (n, k) are the rows, ``y`` (n,) class indices, and ``weights`` (t, n) non-negative, each
    row summing to one. If ``Z`` is less precise than ``start``, risks, gradients and the gap are
    still computed in the precision of ``start``. For the other arguments see
    :func:`minimize_largest_risk`.
    """
    return minimize_largest_risk(
        risks_in_memory(Z, y, weights, start),
        ridge=ridge,
        start=start,
        anchor=anchor,
        offsets=offsets,
        mixture=mixture,
        tolerance=tolerance,
        max_iterations=max_iterations,
    )


def risks_in_memory(Z: Tensor, y: Tensor, weights: Tensor, start: Tensor) -> WeightedRisks:
    """Return the risks of rows ``Z`` (n, k), for heads (C, k) like ``start``."""
    one_hot = torch.nn.functional.one_hot(y, len(start)).to(start.dtype)
    return _RisksInMemory(Z, y, weights, one_hot)


def minimize_largest_risk(
    rows: WeightedRisks,
    *,
    ridge: float | Tensor,
    start: Tensor,
    anchor: Tensor | None = None,
    offsets: Tensor | None = None,
    mixture: Tensor | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 60,
) -> Solution:
    """Minimize the largest of t weighted risks over heads W (C, k), by sequential quadratic steps.

    The objective is ``max_i [risk_i(W) - offsets_i] + Σ_j ridge_j |W_j - anchor_j|²`` over columns
    j: ``ridge`` is positive, one number or (k,), and ``anchor`` is 0 by default. ``start`` and
    ``mixture`` are warm starts. The method stops when the duality gap is at most ``tolerance``.
    """
    n, t = rows.shape
    anchor = torch.zeros_like(start) if anchor is None else anchor
    column_ridge = ridge * torch.ones_like(start[0])
    offsets = start.new_zeros(t) if offsets is None else offsets
    mixture = start.new_full((t,), 1.0 / t) if mixture is None else mixture

    def evaluate(head: Tensor) -> tuple[RisksAtHead, float, float]:
        here = rows.at(head)
        ridge_term = float(((head - anchor).square() * column_ridge).sum())
        return here, ridge_term, float((here.risks - offsets).max()) + ridge_term

    def lower_bound(q: Tensor) -> float:
        # Each mixture's objective is strongly convex in the ridge's metric: hence the bound.
        mixed = torch.tensordot(q, gradients, dims=1)
        slack = float((mixed.square() / (4 * column_ridge)).sum())
        return float(q @ (here.risks - offsets)) + ridge_term - slack

    head = start
    here, ridge_term, value = evaluate(head)
    tolerances = (
        [0.0] if _prefers_dense_hessian(n, start.shape[1], len(start)) else list(_CG_TOLERANCES)
    )
    lower, iteration = -float("inf"), 0
    while True:
        gradients = here.gradients() + 2 * column_ridge * (head - anchor)
        lower = max(lower, lower_bound(mixture))
        if value - lower <= tolerance or iteration == max_iterations:
            break
        iteration += 1
        if tolerances[0] == 0:
            directions = _solve_dense(here.hessian(mixture), column_ridge, gradients)
        else:
            directions = _solve_conjugate(
                *here.curvature(mixture), column_ridge, gradients, tolerances[0]
            )
        curvature = torch.einsum("icd,jcd->ij", gradients, directions)
        mixture = maximize_on_simplex(curvature, here.risks - offsets)
        lower = max(lower, lower_bound(mixture))
        step = -torch.tensordot(mixture, directions, dims=1)
        model = float(mixture @ (here.risks - offsets) - 0.5 * mixture @ curvature @ mixture)
        decrease = max(value - ridge_term - model, 0.0)
        size = 1.0
        for _ in range(_MAX_HALVINGS):
            candidate = evaluate(head + size * step)
            if candidate[2] <= value - _ARMIJO * size * decrease:
                break
            size /= 2
        else:
            if len(tolerances) == 1:  # rounding: no representable step improves the objective
                break
            del tolerances[0]
            continue
        head = head + size * step
        here, ridge_term, value = candidate
    return Solution(head, mixture, here.risks, value, max(value - lower, 0.0), iteration)


@dataclass(frozen=True)
class _RisksInMemory:
    """Weighted risks of rows ``Z`` (n, k) that are in memory."""

    Z: Tensor
    y: Tensor
    weights: Tensor  # (t, n)
    one_hot: Tensor  # (n, C)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.Z), len(self.weights)

    def at(self, head: Tensor) -> RisksAtHead:
        return _MemoryAtHead(self, log_probabilities(self.Z, head))


class _MemoryAtHead:
    """The same at one head, whose probabilities are kept."""

    def __init__(self, rows: _RisksInMemory, log_p: Tensor) -> None:
        self._rows, self._p, self._is_log = rows, log_p, True
        self._risks = rows.weights @ losses(log_p, rows.y)

    @property
    def risks(self) -> Tensor:
        return self._risks

    @property
    def _probabilities(self) -> Tensor:
        if self._is_log:  # in place, and only where a step was taken
            self._p.exp_()
            self._is_log = False
        return self._p

    def gradients(self) -> Tensor:
        residual = self._probabilities - self._rows.one_hot
        return weighted_gradients(self._rows.Z, residual, self._rows.weights)

    def hessian(self, mixture: Tensor) -> Tensor:
        return hessian(self._rows.Z, self._probabilities, mixture @ self._rows.weights)

    def curvature(self, mixture: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        Z, p, weight = self._rows.Z, self._probabilities, mixture @ self._rows.weights
        slabs = conversion_chunks(Z, p.dtype)
        # Curvature in the precision of the rows is far better than the tolerance asks for.
        curved = (p * weight.unsqueeze(1)).to(Z.dtype)
        short = p.to(Z.dtype)

        def product(v: Tensor) -> Tensor:
            image = torch.zeros_like(v)
            for rows in slabs:
                image += curvature_product(Z[rows], short[rows], curved[rows], v)
            return image

        return hessian_diagonal(Z, p, weight), product


def weighted_gradients(Z: Tensor, residual: Tensor, weights: Tensor) -> Tensor:
    """Return the gradients (t, C, k) of the t weighted risks, from the rows' ``p - one_hot``."""
    t, classes = len(weights), residual.shape[1]
    gradients = residual.new_zeros((t * classes, Z.shape[1]))
    for rows in conversion_chunks(Z, residual.dtype):
        scaled = weights[:, rows].T.unsqueeze(2) * residual[rows].unsqueeze(1)
        gradients.addmm_(scaled.reshape(-1, t * classes).T, Z[rows].to(residual.dtype))
    return gradients.reshape(t, classes, Z.shape[1])


def _prefers_dense_hessian(n: int, k: int, classes: int) -> bool:
    """Return whether factorizing the Hessian is cheaper than about forty products with it."""
    dense = classes * (classes - 1) * k * k * n + (classes * k) ** 3 / 3
    return dense <= 40 * 4 * n * k * classes  # four passes a product


def _solve_dense(matrix: Tensor, column_ridge: Tensor, rhs: Tensor) -> Tensor:
    """Apply the inverse of the Hessian ``matrix`` with its ridge to ``rhs`` (t, C, k), exactly."""
    matrix.diagonal().add_(2 * column_ridge.repeat(rhs.shape[1]))
    factor = cholesky(matrix)
    return torch.cholesky_solve(rhs.reshape(len(rhs), -1).T, factor).T.reshape(rhs.shape)


def hessian(Z: Tensor, p: Tensor, weight: Tensor) -> Tensor:
    """Return the Hessian (C·k, C·k) of the weighted risk at class probabilities ``p`` (n, C)."""
    return assemble_hessian(pair_grams(Z, p, weight), p.shape[1])


def pair_grams(Z: Tensor, p: Tensor, weight: Tensor) -> Tensor:
    """Return the matrices (C (C - 1) / 2, k, k) that a Hessian is made of, by pairs of classes."""
    classes, k = p.shape[1], Z.shape[1]
    grams = p.new_zeros((classes * (classes - 1) // 2, k, k))
    pairs = ((a, b) for a in range(classes) for b in range(a))
    for gram, (a, b) in zip(grams, pairs, strict=True):
        pair = weight * p[:, a] * p[:, b]
        for rows in row_chunks(*Z.shape):
            chunk = Z[rows].to(p.dtype)
            gram.addmm_((chunk * pair[rows, None]).T, chunk)
    return grams


def assemble_hessian(grams: Tensor, classes: int) -> Tensor:
    """Return the Hessian (C·k, C·k) that :func:`pair_grams` are the parts of."""
    k = grams.shape[1]
    blocks = grams.new_zeros((classes, k, classes, k))
    pairs = ((a, b) for a in range(classes) for b in range(a))
    for gram, (a, b) in zip(grams, pairs, strict=True):
        blocks[a, :, b] -= gram
        blocks[b, :, a] -= gram
        blocks[a, :, a] += gram
        blocks[b, :, b] += gram
    return blocks.reshape(classes * k, classes * k)


def hessian_diagonal(Z: Tensor, p: Tensor, weight: Tensor) -> Tensor:
    """Return the diagonal (C, k) of :func:`hessian`; on whitened rows the rest is small."""
    diagonal = p.new_zeros((p.shape[1], Z.shape[1]))
    curvature = (weight.unsqueeze(1) * p * (1 - p)).to(Z.dtype)
    for rows in row_chunks(*Z.shape):
        diagonal += curvature[rows].T @ Z[rows].square()
    return diagonal


def curvature_product(Z: Tensor, p: Tensor, curved: Tensor, v: Tensor) -> Tensor:
    """Return the product of the Hessian with ``v`` (t, C, k); ``curved`` (n, C) is weight · p."""
    t, classes, k = v.shape
    u = (Z @ v.reshape(t * classes, k).to(Z.dtype).T).reshape(-1, t, classes)
    u = u - (u * p.unsqueeze(1)).sum(dim=2, keepdim=True)
    u *= curved.unsqueeze(1)
    return (u.reshape(-1, t * classes).T @ Z).reshape(v.shape)


def _solve_conjugate(
    diagonal: Tensor,
    multiply: Callable[[Tensor], Tensor],
    column_ridge: Tensor,
    rhs: Tensor,
    tolerance: float,
) -> Tensor:
    """Apply the same inverse by preconditioned conjugate gradients, on all of ``rhs`` at once.

    ``diagonal`` (C, k) is that of the Hessian, and ``multiply`` its product with (t, C, k).
    """
    diagonal = diagonal + 2 * column_ridge

    def product(v: Tensor) -> Tensor:
        return multiply(v) + 2 * column_ridge * v

    x = rhs / diagonal
    r = rhs - product(x)
    z = r / diagonal
    direction = z.clone()
    rho = (r * z).sum(dim=(1, 2))
    goal = tolerance**2 * (rhs.square() / diagonal).sum(dim=(1, 2))
    for _ in range(_CG_ITERATIONS):
        if bool((rho <= goal).all()):
            break
        image = product(direction)
        alpha = rho / (direction * image).sum(dim=(1, 2)).clamp_min(torch.finfo(rhs.dtype).tiny)
        x = x + alpha[:, None, None] * direction
        r = r - alpha[:, None, None] * image
        z = r / diagonal
        rho, previous = (r * z).sum(dim=(1, 2)), rho
        ratio = rho / previous.clamp_min(torch.finfo(rhs.dtype).tiny)
        direction = z + ratio[:, None, None] * direction
    return x
