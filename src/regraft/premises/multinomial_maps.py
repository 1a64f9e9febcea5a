"""Multinomial regressions on whitened rows, with free intercepts and a cross-validated penalty.

They estimate probabilities that a robust head does not give: of groups given inputs, of labels
given inputs and groups, of domains given inputs. Intercepts are almost free, so that the mean
probabilities of a map are the observed frequencies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regraft.core.newton import log_probabilities, losses, minimax_newton

# Factors of half the squared weights: scikit-learn's 1 / C, or 2 / C for two outcomes, of which
# both have weights here.
PENALTIES = (100_000.0, 10_000.0, 3000.0, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.1, 0.01)
# Penalties of departures from an anchor; the first allows none.
ANCHOR_PENALTIES = (100_000.0, 10_000.0, 1000.0, 300.0, 100.0, 30.0, 10.0)
SHRINKAGE = 1.0  # of the whitening, so that weak directions of the features count less
FOLDS = 3
_INTERCEPT_PENALTY = (
    1e-1  # the same for intercepts, which an outcome never seen would else make infinite
)
_TOLERANCE = 1e-5
_MANY_ENTRIES = 1_000_000  # rows times columns, from which on curvature is in single precision


@dataclass(frozen=True)
class OutcomeData:
    """Rows, and the outcomes to predict from them."""

    Z: Tensor  # (n, k) whitened rows, the last columns constants
    labels: Tensor  # (n,) index of the outcome
    n_outcomes: int
    n_constants: int = 1  # columns at the end that are intercepts
    constant_penalty: float = _INTERCEPT_PENALTY

    def take(self, rows: Tensor) -> OutcomeData:
        """Select rows by a mask or an index (n,)."""
        return replace(self, Z=self.Z[rows], labels=self.labels[rows])

    def split(self, part: Tensor, n_parts: int) -> list[OutcomeData]:
        """Return the rows of each part, given the part (n,) of each row."""
        return [self.take(part == i) for i in range(n_parts)]


def fit_map(
    data: OutcomeData, penalty: float, *, start: Tensor | None = None, anchor: Tensor | None = None
) -> Tensor:
    """Return the weights (m, k) of m outcomes, with mean zero over the outcomes.

    They are shrunk towards ``anchor`` (m, k), zeros by default, and equal it if there are no rows.
    """
    n, k = data.Z.shape
    if anchor is None:
        anchor = data.Z.new_zeros((data.n_outcomes, k))
    if n == 0:
        return anchor
    ridge = data.Z.new_full((k,), penalty / (2 * n))
    ridge[k - data.n_constants :] = data.constant_penalty / (2 * n)
    weight = data.Z.new_full((1, n), 1 / n)
    fitted = minimax_newton(
        data.Z if data.Z.numel() < _MANY_ENTRIES else data.Z.float(),
        data.labels,
        weight,
        ridge=ridge,
        start=anchor if start is None else start,
        anchor=anchor,
        tolerance=_TOLERANCE,
    ).head
    return fitted - fitted.mean(dim=0)


def choose_penalty(
    problems: Sequence[OutcomeData], held_out: Sequence[Tensor] | None = None
) -> float:
    """Choose the penalty under which held-out rows of all problems are most likely.

    ``held_out`` are masks (n,), one for each problem. By default every third row is held out, and
    rows should be in random order.
    """
    if held_out is None:
        held_out = [deal_folds(len(data.Z), data.Z.device) == 0 for data in problems]
    masks = zip(problems, held_out, strict=True)
    return choose_penalty_on_pairs(
        [(data.take(~mask), data.take(mask)) for data, mask in masks], PENALTIES
    )


def choose_penalty_on_pairs(
    pairs: Sequence[tuple[OutcomeData, OutcomeData]],
    penalties: Sequence[float],
    anchors: Sequence[Tensor] | None = None,
) -> float:
    """Choose the penalty that makes the second part of each pair most likely, fitted to the first.

    ``penalties`` are tried from the strongest down while they help. Maps are shrunk towards
    ``anchors``, zeros by default.
    """
    return _search_penalty(pairs, penalties, anchors)[0]


def _search_penalty(
    pairs: Sequence[tuple[OutcomeData, OutcomeData]],
    penalties: Sequence[float],
    anchors: Sequence[Tensor] | None = None,
) -> tuple[float, list[Tensor]]:
    """Return the best penalty, and the maps that it gave for the first part of each pair."""
    pulls: Sequence[Tensor | None] = [None] * len(pairs) if anchors is None else anchors
    starts: Sequence[Tensor | None] = pulls
    best, best_loss, best_maps = penalties[0], float("inf"), list[Tensor]()
    for penalty in penalties:
        maps, loss = list[Tensor](), 0.0
        for (seen, held_out), start, pull in zip(pairs, starts, pulls, strict=True):
            maps.append(fit_map(seen, penalty, start=start, anchor=pull))
            log_p = log_probabilities(held_out.Z, maps[-1])
            loss += float(losses(log_p, held_out.labels).sum())
        if loss >= best_loss:
            break
        best, best_loss, best_maps = penalty, loss, maps
        starts = maps
    return best, best_maps


def deal_folds(n: int, device: torch.device) -> Tensor:
    """Deal n rows to folds in turn, and return the fold (n,) of each."""
    return torch.arange(n, device=device) % FOLDS


def crossfit_probabilities(
    data: OutcomeData, penalty: float | None = None, *, most: int | None = None
) -> Tensor:
    """Return outcome probabilities (n, m) of each row, by a map that has not seen its fold.

    Without a ``penalty``, it is the one that makes the first fold most likely. Each map is fitted
    to ``most`` rows or fewer.
    """
    fold = deal_folds(len(data.Z), data.Z.device)
    probabilities = data.Z.new_empty((len(data.Z), data.n_outcomes))
    fitted: Tensor | None = None
    for f in range(FOLDS):
        seen = data.take(torch.nonzero(fold != f).squeeze(1)[:most])
        held_out = data.take(fold == f)
        if penalty is None:
            penalty, (fitted,) = _search_penalty([(seen, held_out)], PENALTIES)
        else:
            fitted = fit_map(seen, penalty, start=fitted)
        probabilities[fold == f] = log_probabilities(held_out.Z, fitted).exp()
    return probabilities
