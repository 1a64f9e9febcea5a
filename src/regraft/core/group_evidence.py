"""Evidence in every extreme mixture of hidden groups, with bounds that hold together."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from torch import Tensor

from regraft.core.evidence import Evidence, HeldOutRows, measure, tighten_bounds
from regraft.core.group_targets import GroupTargets
from regraft.core.uncertain_groups import bound_group_mean


class GroupMeasurements:
    """Evidence in the extremes of ``targets`` and in each group alone, measured once for a head."""

    def __init__(self, targets: GroupTargets) -> None:
        self._targets = targets
        self._alone = replace(targets, prior_shift=None, class_groups=False)
        # Without limits, the extremes are the groups themselves.
        self._has_limits = targets.prior_shift is not None or targets.class_groups
        self._found: list[tuple[HeldOutRows, bool, tuple[Evidence, ...]]] = []

    def in_targets(self, held_out: HeldOutRows) -> tuple[Evidence, ...]:
        """Return the evidence in every extreme target."""
        return self._measure(held_out, alone=not self._has_limits)

    def in_groups(self, held_out: HeldOutRows) -> tuple[Evidence, ...]:
        """Return the evidence in each group alone; in the pooled sources if there is one group."""
        return self._measure(held_out, alone=True)

    def _measure(self, held_out: HeldOutRows, *, alone: bool) -> tuple[Evidence, ...]:
        for rows, was_alone, evidence in self._found:
            if rows is held_out and was_alone == alone:
                return evidence
        evidence = measure_targets(self._alone if alone else self._targets, held_out)
        self._found.append((held_out, alone, evidence))
        return evidence


def measure_targets(targets: GroupTargets, held_out: HeldOutRows) -> tuple[Evidence, ...]:
    """Measure heads or a predictor in every extreme mixture of the groups."""
    if targets.class_groups:  # too many to list: the worst one by risk, and by accuracy
        worst = {
            "the mixture of the largest risk": targets.worst(held_out.loss),
            "the mixture of the lowest accuracy": targets.worst(-held_out.correct),
        }
        return tuple(
            measure(name, weight, held_out, together=len(worst), purity=_least(targets, picks))
            for name, (weight, picks) in worst.items()
        )
    together = len(targets.favoured)
    columns = targets.favoured, targets.blocks[0], targets.purity[0].tolist()
    found = tuple(
        measure(name_target(favoured, targets), weight, held_out, together=together, purity=purity)
        for favoured, weight, purity in zip(*columns, strict=True)
    )
    if targets.least_factor == 1:  # all rows count alike
        return found
    return tuple(
        _tighten(each, targets, share, weight, held_out)
        for each, share, weight in zip(found, targets.shares.T, targets.blocks[0], strict=True)
    )


def _tighten(
    found: Evidence, targets: GroupTargets, share: Tensor, weight: Tensor, held_out: HeldOutRows
) -> Evidence:
    """Take the bounds by the rows' shares (n,) in a target where they are better."""
    bound = partial(
        bound_group_mean,
        share=share,
        base=targets.base,
        y=targets.y,
        least=targets.least_factor,
        together=len(targets.favoured),
    )
    # Never better than rows whose group is certain: without a mistake, Student's bound is zero.
    best = measure("", weight, held_out, together=len(targets.favoured))
    return tighten_bounds(found, bound(held_out.loss), bound(1 - held_out.correct), best)


def _least(targets: GroupTargets, picks: Tensor) -> float:
    """Return the least purity of the extremes that the blocks pick."""
    pairs = zip(targets.purity, picks.tolist(), strict=True)
    return min(float(block[pick]) for block, pick in pairs)


def name_target(favoured: tuple[int, ...], targets: GroupTargets) -> str:
    """Name an extreme target by the groups that it favours."""
    if targets.belief.shape[1] == 1:
        return "pooled sources"
    numbers = " and ".join(str(u) for u in favoured)
    return f"group {numbers}" if targets.prior_shift is None else f"group {numbers} favoured"
