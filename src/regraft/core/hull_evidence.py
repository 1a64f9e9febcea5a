"""A head in the worst targets of the hull, measured on rows that no part of it has seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from scipy.special import ndtri, stdtrit
from torch import Tensor

from regraft.core.evidence import CONFIDENCE, Evidence, HeldOutRows, measure
from regraft.core.hull import attack, attack_keeping_inputs
from regraft.core.target_rows import TargetRows

# A bound at one target is enough, because the worst target of the population is one target.
ERRORS = float(ndtri(CONFIDENCE))
LARGEST_RISK = "the domain of the largest risk"
LOWEST_ACCURACY = "the domain of the lowest accuracy"


def measure_hull(
    rows: TargetRows, fold: Tensor, radius: float, held_out: HeldOutRows
) -> tuple[Evidence, ...]:
    """Measure where the bounds are worst: the targets of the largest risk and lowest accuracy.

    The rows of each fold have the worst target of their own among those of heads that have not seen
    them. One target for all folds would be milder than that of the final heads: these err in one
    way, and the heads of the folds in several, which cancel.
    """
    losses = {LARGEST_RISK: held_out.loss, LOWEST_ACCURACY: 1 - held_out.correct}
    weights = {name: torch.zeros_like(loss) for name, loss in losses.items()}
    folds = _rows_by_fold(fold)
    errors = ERRORS / len(folds) ** 0.5
    for each in folds:
        part = rows.take(each)
        for name, loss in losses.items():
            found = attack(part, loss[each], radius, errors=errors)
            weights[name][each] = found.weights / len(folds)
    return tuple(
        _widen(measure(name, weight, held_out), weight, held_out, folds)
        for name, weight in weights.items()
    )


def measure_keeping_inputs(
    rows: TargetRows, fold: Tensor, radius: float, log_p: Tensor
) -> tuple[Evidence, ...]:
    """Measure as :func:`measure_hull` does, with inputs kept and labels of the target's head."""
    right = torch.zeros_like(log_p).scatter_(0, log_p.argmax(dim=0, keepdim=True), 1.0)
    losses = {LARGEST_RISK: -log_p, LOWEST_ACCURACY: 1 - right}
    weight, folds = rows.log_weight.exp(), _rows_by_fold(fold)
    judged = {
        name: HeldOutRows(weight.new_zeros(len(fold)), weight.new_zeros(len(fold)))
        for name in losses
    }
    errors = ERRORS / len(folds) ** 0.5
    for each in folds:
        part = rows.take(each)
        for name, loss in losses.items():
            share = attack_keeping_inputs(part, loss[:, each], radius, errors)
            judged[name].loss[each] = (share * -log_p[:, each]).sum(dim=0)
            judged[name].correct[each] = (share * right[:, each]).sum(dim=0)
    # The labels are those of the heads, whose errors the folds have in common: two folds share
    # most of the rows behind their heads. The jackknife counts that.
    return tuple(
        _widen(measure(name, weight, held_out), weight, held_out, folds, times=len(folds) - 1)
        for name, held_out in judged.items()
    )


def _widen(
    evidence: Evidence,
    weight: Tensor,
    held_out: HeldOutRows,
    folds: Sequence[Tensor],
    times: float = 1.0,
) -> Evidence:
    """Widen the bounds to what the means of the folds tell, if that is more.

    Rows alone do not show how much the heads err; heads fitted without each fold do.
    """
    bounds = []
    for value in (held_out.loss, 1 - held_out.correct):
        means = torch.stack([weight[f] @ value[f] / weight[f].sum() for f in folds])
        error = times * float(means.std()) / len(folds) ** 0.5
        bounds.append(float(means.mean()) + float(stdtrit(len(folds) - 1, CONFIDENCE)) * error)
    return replace(
        evidence,
        risk_bound=max(evidence.risk_bound, bounds[0]),
        accuracy_bound=max(min(evidence.accuracy_bound, 1 - bounds[1]), 0.0),
    )


def _rows_by_fold(fold: Tensor) -> list[Tensor]:
    return [(fold == f).nonzero().squeeze(1) for f in range(int(fold.max()) + 1)]
