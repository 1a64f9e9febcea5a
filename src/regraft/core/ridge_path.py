"""Heads along a falling sequence of ridges, without each fold of the rows: one batch of fits.

The fits only choose among ridges and judge rows held out, so of many rows the products are those of
short floats, and the curvature is that of a sample. Sums over chunks of rows are long floats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regraft.core.curvature import hessian, hessian_diagonal
from regraft.core.decompositions import cholesky
from regraft.core.lbfgs import minimize_batch
from regraft.core.newton import has_many_numbers, log_probabilities
from regraft.core.whitening import chunks_of

FOLDS = 3
# Fits stop when their excess risk is estimated to be below this many nats.
_TOLERANCE = 1e-5
# Heads of up to this many parameters are preconditioned by their full curvature.
_MAX_DENSE_PARAMETERS = 800
_MAX_CURVATURE_ROWS = 4096
# The curvature serves until the square of the change of the logits, weighed by it, is larger.
_MAX_CHANGE = 0.02
_CACHE_ENTRIES = 400_000  # of a temporary that should stay in cache


def shorten(Z: Tensor) -> Tensor:
    """Return rows ``Z`` (n, k) in the precision that choosing a ridge needs."""
    return Z.float() if has_many_numbers(Z) else Z


@dataclass(frozen=True)
class _Sums:
    """Sums over the rows at heads without each fold, for P penalties; no ridge is in them."""

    risk: Tensor  # (folds, P) on the rows fitted on
    gradient: Tensor  # (folds, P, C, k) of that risk
    likelihood: Tensor  # (folds, P) of the rows left out

    def take(self, kept: Tensor) -> _Sums:
        """Return the sums of some penalties."""
        return _Sums(self.risk[:, kept], self.gradient[:, kept], self.likelihood[:, kept])

    def put(self, moved: Tensor, sums: _Sums) -> _Sums:
        """Return these sums with others in place of those of the penalties that ``moved`` (P,)."""
        risk, gradient, likelihood = (
            each.clone() for each in (self.risk, self.gradient, self.likelihood)
        )
        risk[:, moved], gradient[:, moved] = sums.risk, sums.gradient
        likelihood[:, moved] = sums.likelihood
        return _Sums(risk, gradient, likelihood)


class RidgePath:
    """Heads for every fold left out and every penalty, along a falling sequence of ridges.

    All fits of one ridge run as a single batch, warm-started at those of the previous ridge.
    """

    def __init__(
        self,
        Z: Tensor,
        y: Tensor,
        weight: Tensor,
        fold: Tensor,
        penalties: Tensor,
        anchors: Tensor,
        tolerance: float = _TOLERANCE,
    ) -> None:
        self._Z, self._y, self._weight, self._tolerance = Z, y, weight, tolerance
        training, left_out = (
            torch.stack([weight * mask for mask in masks])
            for masks in ([fold != f for f in range(FOLDS)], [fold == f for f in range(FOLDS)])
        )
        # A fold may hold all rows of a tiny source: its head then stays at the anchor.
        smallest = torch.finfo(weight.dtype).tiny
        training = training / training.sum(dim=1, keepdim=True).clamp_min(smallest)
        self._training = training.to(Z.dtype)  # (folds, n)
        self._both = torch.stack([training, left_out], dim=2).to(Z.dtype)  # (folds, n, 2)
        self._labels = self._sum_labels(anchors.shape[2])
        self._penalties = penalties  # (P, k)
        self._anchors = anchors  # (folds, P, C, k)
        self._kept = torch.arange(len(penalties), device=Z.device)
        self._sums: _Sums | None = None  # at the heads of the kept penalties
        self._curvature: tuple[Tensor, Tensor] | None = None  # and the head (C, k) that it is at
        self.heads = anchors.clone()
        self.likelihood = penalties.new_zeros(len(penalties))  # (P,) held-out, mean per row

    def keep(self, mask: Tensor) -> None:
        """Continue with these penalties (P,) only; the likelihoods of the others become -inf."""
        kept = mask[self._kept]
        self._kept = self._kept[kept]
        self._sums = None if self._sums is None else self._sums.take(kept)
        self.likelihood = torch.where(mask, self.likelihood, -float("inf"))

    def advance(self, ridge: float) -> None:
        """Fit the kept penalties at ``ridge``, and update ``heads`` and ``likelihood``."""
        start = self.heads[:, self._kept]
        anchor, shape = self._anchors[:, self._kept], start.shape
        penalties = ridge * self._penalties[self._kept]
        column_ridge = penalties.unsqueeze(1)  # (P', 1, k)
        place, sums = start, self._sums  # where the sums are those of

        def value_and_gradient(flat: Tensor) -> tuple[Tensor, Tensor]:
            nonlocal place, sums
            heads = flat.reshape(shape)
            if sums is None:
                sums = self._sum(heads)
            else:  # fits that have ended wait for the others, and at first nothing has moved
                moved = (heads != place).any(dim=3).any(dim=2).any(dim=0)
                if bool(moved.all()):
                    sums = self._sum(heads)
                elif bool(moved.any()):
                    sums = sums.put(moved, self._sum(heads[:, moved]))
            place = heads
            shift = column_ridge * (heads - anchor)
            value = sums.risk + (shift * (heads - anchor)).sum(dim=(2, 3))
            return value.flatten(), (sums.gradient + 2 * shift).reshape(flat.shape)

        flat = minimize_batch(
            value_and_gradient,
            start.reshape(shape[0] * shape[1], -1),
            self._preconditioner(penalties),
            tolerance=self._tolerance,
        )
        assert sums is not None  # the last evaluation is that of the answer
        self._sums = sums
        self.heads[:, self._kept] = flat.reshape(shape)
        self.likelihood[self._kept] = sums.likelihood.sum(dim=0)

    def _sum(self, heads: Tensor) -> _Sums:
        """Sum over the rows, at heads (folds, P, C, k).

        Only differences of logits matter, and gradients add up to zero over the classes: nothing is
        multiplied for the last class.
        """
        folds, count, n_classes, k = heads.shape
        if n_classes == 1:  # the only class is certain
            nothing = heads.new_zeros((folds, count))
            return _Sums(nothing, torch.zeros_like(heads), nothing)
        both = heads.new_zeros((folds, count, 2))
        gradient = heads.new_zeros((n_classes - 1, folds * count, k))
        above_last = (heads[:, :, :-1] - heads[:, :, -1:]).permute(2, 0, 1, 3)
        flat = above_last.reshape(-1, k).to(self._Z.dtype)
        for rows in chunks_of(self._Z, len(flat) + folds * count, _CACHE_ENTRIES):
            Z, y = self._Z[rows], self._y[rows]
            logits = (flat @ Z.T).reshape(n_classes - 1, folds * count, -1)
            log_sum = _log_sum_with_zero(logits)
            label = y.clamp_max(n_classes - 2).expand(1, folds * count, -1)
            own = logits.gather(0, label).squeeze(0) * (y < n_classes - 1) - log_sum
            both += own.reshape(folds, count, -1) @ self._both[:, rows]
            p = logits.sub_(log_sum).exp_().reshape(n_classes - 1, folds, count, -1)
            p *= self._training[:, rows].unsqueeze(1)
            gradient += (p.reshape(len(flat), -1) @ Z).reshape(gradient.shape)
        gradient = gradient.reshape(n_classes - 1, folds, count, k).permute(1, 2, 0, 3)
        gradient = gradient - self._labels[:, :-1].unsqueeze(1)
        gradient = torch.cat([gradient, -gradient.sum(dim=2, keepdim=True)], dim=2)
        return _Sums(-both[..., 0], gradient, both[..., 1])

    def _sum_labels(self, n_classes: int) -> Tensor:
        """Return the part (folds, C, k) of the gradients that is the same at all heads."""
        sums = self._weight.new_zeros((FOLDS, n_classes, self._Z.shape[1]))
        # A matrix with a column for every class would need more memory than all rows.
        for rows in chunks_of(self._Z, n_classes, _CACHE_ENTRIES):
            one_hot = torch.nn.functional.one_hot(self._y[rows], n_classes).to(self._Z.dtype).T
            for total, weight in zip(sums, self._training[:, rows], strict=True):
                total += (one_hot * weight) @ self._Z[rows]
        return sums

    def _preconditioner(self, penalties: Tensor) -> Callable[[Tensor], Tensor]:
        """Return the inverse curvature near the mean of the heads, one per column ridge (P', k)."""
        head = self.heads[:, self._kept].mean(dim=(0, 1))
        curvature = self._curvature_near(head)
        diagonal = 2 * penalties.repeat(1, len(head))  # (P', C·k)
        if curvature.dim() == 2:
            factor = cholesky(curvature + torch.diag_embed(diagonal))

            def dense(gradient: Tensor) -> Tensor:
                rhs = gradient.reshape(FOLDS, len(diagonal), -1).permute(1, 2, 0)
                return torch.cholesky_solve(rhs, factor).permute(2, 0, 1).reshape(gradient.shape)

            return dense
        diagonal = diagonal + curvature
        return lambda gradient: gradient / diagonal.repeat(FOLDS, 1)

    def _curvature_near(self, head: Tensor) -> Tensor:
        """Return the Hessian (C·k, C·k) or its diagonal (C·k,), at ``head`` (C, k) or near it."""
        if self._curvature is not None:
            curvature, place = self._curvature
            change = (head - place).flatten()
            image = curvature @ change if curvature.dim() == 2 else curvature * change
            if float(change @ image) <= _MAX_CHANGE:
                return curvature
        # The rows are sorted, so a stride of them is a stratified sample, and enough for this.
        stride = slice(None, None, max(1, len(self._Z) // _MAX_CURVATURE_ROWS))
        Z, weight = self._Z[stride], self._weight[stride] / self._weight[stride].sum()
        p = log_probabilities(Z, head.to(Z.dtype)).exp()
        if head.numel() <= _MAX_DENSE_PARAMETERS:
            curvature = hessian(Z, p, weight.to(Z.dtype)).to(head.dtype)
        else:
            curvature = hessian_diagonal(Z, p, weight.to(Z.dtype)).flatten().to(head.dtype)
        self._curvature = curvature, head
        return curvature


def _log_sum_with_zero(logits: Tensor) -> Tensor:
    """Return the logarithm (m, n) of one plus the sum of exponentials of logits (C - 1, m, n)."""
    if len(logits) == 1:
        return torch.nn.functional.softplus(logits[0], threshold=100)
    largest = logits.amax(dim=0).clamp_min(0)
    return (logits - largest).exp_().sum(dim=0).add_((-largest).exp()).log_().add_(largest)
