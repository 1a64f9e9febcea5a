"""Newton's method for the largest of finitely many weighted softmax risks.

One routine serves every convex fit of the library. A single weighted head is the case of one
target, and the learner's step of Algorithm 1 the case of several. Each answer has a duality gap.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Required, TypedDict, Unpack

import torch
from torch import Tensor

from regraft.core.curvature import (
    curvature_product,
    hessian,
    hessian_diagonal,
    prefers_dense_hessian,
    solve_conjugate,
    solve_dense,
)
from regraft.core.simplex import maximize_on_simplex
from regraft.core.whitening import conversion_chunks

_ARMIJO = 1e-4
_MAX_HALVINGS = 30
# Tolerances of the conjugate gradients: the first usually suffices, the others retry failed steps.
_CG_TOLERANCES = (3e-2, 1e-3, 3e-5)
# Of many numbers, curvature is summed in short floats, unless a ridge is near their rounding.
_MAX_LONG_NUMBERS = 2**19
_SMALLEST_SHORT_RIDGE = 1e-6


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


class SearchSettings(TypedDict, total=False):
    """What a search is told beside its rows; see :func:`search_head`."""

    ridge: Required[float | Tensor]
    start: Required[Tensor]
    anchor: Tensor | None
    offsets: Tensor | None
    mixture: Tensor | None
    tolerance: float
    max_iterations: int


def minimax_newton(
    Z: Tensor, y: Tensor, weights: Tensor, **settings: Unpack[SearchSettings]
) -> Solution:
    """Minimize the largest of t weighted risks over heads W (C, k), of rows in memory.

    ``Z`` (n, k) are the rows, ``y`` (n,) class indices, and ``weights`` (t, n) non-negative, each
    row summing to one. If ``Z`` is less precise than ``start``, risks, gradients and the gap are
    still computed in the precision of ``start``. For the other arguments see :func:`search_head`.
    """
    rows = risks_in_memory(Z, y, weights, settings["start"], settings["ridge"])
    return minimize_largest_risk(rows, **settings)


def risks_in_memory(
    Z: Tensor, y: Tensor, weights: Tensor, start: Tensor, ridge: float | Tensor
) -> WeightedRisks:
    """Return the risks of rows ``Z`` (n, k), for heads (C, k) like ``start`` with this ridge."""
    one_hot = torch.nn.functional.one_hot(y, len(start)).to(start.dtype)
    return _RisksInMemory(Z, y, weights, one_hot, _may_shorten(Z, ridge))


def soft_risks_in_memory(
    Z: Tensor, shares: Tensor, weights: Tensor, ridge: float | Tensor
) -> WeightedRisks:
    """Return the same for rows that have every class, with ``shares`` (n, C) that sum to one."""
    return _RisksInMemory(Z, None, weights, shares, _may_shorten(Z, ridge))


def _may_shorten(Z: Tensor, ridge: float | Tensor) -> bool:
    """Return whether curvature of rows ``Z`` with this ridge may be summed in short floats."""
    least = ridge if isinstance(ridge, float) else float(torch.as_tensor(ridge).min())
    return has_many_numbers(Z) and least >= _SMALLEST_SHORT_RIDGE


def has_many_numbers(Z: Tensor) -> bool:
    """Return whether products with rows ``Z`` are short floats where seven digits are enough."""
    return Z.numel() > _MAX_LONG_NUMBERS


def minimize_largest_risk(rows: WeightedRisks, **settings: Unpack[SearchSettings]) -> Solution:
    """Minimize the largest of t weighted risks over heads W (C, k); see :func:`search_head`."""
    search = search_head(rows.shape, **settings)
    return run_searches([search], lambda asked: {i: rows.at(head) for i, head in asked.items()})[0]


# A search yields heads (C, k), is sent the sums over the rows there, and returns its answer.
Search = Generator[Tensor, RisksAtHead, Solution]


def run_searches(
    searches: Sequence[Search],
    evaluate: Callable[[Mapping[int, Tensor]], Mapping[int, RisksAtHead]],
) -> list[Solution]:
    """Run searches side by side, so that ``evaluate`` sees all heads that are asked for at once."""
    asked = {i: next(search) for i, search in enumerate(searches)}
    found = dict[int, Solution]()
    while asked:
        answers = evaluate(asked)
        for i in list(asked):
            try:
                asked[i] = searches[i].send(answers[i])
            except StopIteration as done:
                found[i] = done.value
                del asked[i]
    return [found[i] for i in range(len(searches))]


def search_head(
    shape: tuple[int, int],
    *,
    ridge: float | Tensor,
    start: Tensor,
    anchor: Tensor | None = None,
    offsets: Tensor | None = None,
    mixture: Tensor | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 60,
) -> Search:
    """Search the head W (C, k) of the smallest worst risk, by sequential quadratic steps.

    The objective is ``max_i [risk_i(W) - offsets_i] + Σ_j ridge_j |W_j - anchor_j|²`` over columns
    j: ``ridge`` is positive, one number or (k,), and ``anchor`` is 0 by default. ``start`` and
    ``mixture`` are warm starts. The method stops when the duality gap is at most ``tolerance``.
    ``shape`` is the number of rows, and t.
    """
    n, t = shape
    anchor = torch.zeros_like(start) if anchor is None else anchor
    column_ridge = ridge * torch.ones_like(start[0])
    offsets = start.new_zeros(t) if offsets is None else offsets
    mixture = start.new_full((t,), 1.0 / t) if mixture is None else mixture

    def add_ridge(here: RisksAtHead, head: Tensor) -> tuple[RisksAtHead, float, float]:
        ridge_term = float(((head - anchor).square() * column_ridge).sum())
        return here, ridge_term, float((here.risks - offsets).max()) + ridge_term

    def lower_bound(q: Tensor) -> float:
        # Each mixture's objective is strongly convex in the ridge's metric: hence the bound.
        mixed = torch.tensordot(q, gradients, dims=1)
        slack = float((mixed.square() / (4 * column_ridge)).sum())
        return float(q @ (here.risks - offsets)) + ridge_term - slack

    head = start
    here, ridge_term, value = add_ridge((yield head), head)
    tolerances = (
        [0.0] if prefers_dense_hessian(n, start.shape[1], len(start)) else list(_CG_TOLERANCES)
    )
    lower, iteration = -float("inf"), 0
    while True:
        gradients = here.gradients() + 2 * column_ridge * (head - anchor)
        lower = max(lower, lower_bound(mixture))
        if value - lower <= tolerance or iteration == max_iterations:
            break
        iteration += 1
        if tolerances[0] == 0:
            directions = solve_dense(here.hessian(mixture), column_ridge, gradients)
        else:
            directions = solve_conjugate(
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
            tried = head + size * step
            candidate = add_ridge((yield tried), tried)
            if candidate[2] <= value - _ARMIJO * size * decrease:
                break
            size /= 2
        else:
            if len(tolerances) == 1:  # rounding: no representable step improves the objective
                break
            del tolerances[0]
            continue
        head = tried
        here, ridge_term, value = candidate
    return Solution(head, mixture, here.risks, value, max(value - lower, 0.0), iteration)


@dataclass(frozen=True)
class _RisksInMemory:
    """Weighted risks of rows ``Z`` (n, k) that are in memory."""

    Z: Tensor
    y: Tensor | None  # None if a row has several classes
    weights: Tensor  # (t, n)
    shares: Tensor  # (n, C) of the classes in each row
    is_short: bool  # whether curvature is summed in short floats

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.Z), len(self.weights)

    def at(self, head: Tensor) -> RisksAtHead:
        return _MemoryAtHead(self, log_probabilities(self.Z, head))

    def losses(self, log_p: Tensor) -> Tensor:
        return -(self.shares * log_p).sum(dim=1) if self.y is None else losses(log_p, self.y)


class _MemoryAtHead:
    """The same at one head, whose probabilities are kept."""

    def __init__(self, rows: _RisksInMemory, log_p: Tensor) -> None:
        self._rows, self._p, self._is_log = rows, log_p, True
        self._risks = rows.weights @ rows.losses(log_p)

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
        residual = self._probabilities - self._rows.shares
        return weighted_gradients(self._rows.Z, residual, self._rows.weights)

    def hessian(self, mixture: Tensor) -> Tensor:
        rows, p = self._rows, self._probabilities
        dtype = torch.float32 if rows.is_short else p.dtype
        return hessian(rows.Z, p, mixture @ rows.weights, dtype)

    def curvature(self, mixture: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        Z, p, weight = self._rows.Z, self._probabilities, mixture @ self._rows.weights
        slabs = conversion_chunks(Z, p.dtype)
        # Curvature in this precision is far better than the tolerance asks for.
        Z = Z.float() if self._rows.is_short else Z
        curved = (p * weight.unsqueeze(1)).T.to(Z.dtype).contiguous()
        short = p.T.to(Z.dtype).contiguous()

        def product(v: Tensor) -> Tensor:
            image = torch.zeros_like(v)
            for rows in slabs:
                image += curvature_product(Z[rows], short[:, rows], curved[:, rows], v)
            return image

        return hessian_diagonal(Z, p, weight), product


def weighted_gradients(Z: Tensor, residual: Tensor, weights: Tensor) -> Tensor:
    """Return the gradients (t, C, k) of the t weighted risks, from the rows' ``p - one_hot``.

    Residuals add up to zero, so the gradient of the last class follows from the others.
    """
    t, others = len(weights), residual[:, :-1]
    gradients = residual.new_zeros((t * others.shape[1], Z.shape[1]))
    for rows in conversion_chunks(Z, residual.dtype):
        scaled = weights[:, rows].T.unsqueeze(2) * others[rows].unsqueeze(1)
        gradients.addmm_(scaled.flatten(1).T, Z[rows].to(residual.dtype))
    gradients = gradients.reshape(t, others.shape[1], Z.shape[1])
    return torch.cat([gradients, -gradients.sum(dim=1, keepdim=True)], dim=1)
