"""Whether the sources are the mixtures of groups that their shares say they are.

The certificate speaks of mixtures of whole groups, with the label shares that these have, and
:func:`check_mixtures` compares sources to them. A guard must not refuse a good head because a
source merely has more rows of one class, so :func:`find_outside` compares within the classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from scipy.special import ndtri

from regraft.core.abduction import Groups
from regraft.core.cell_accuracy import INTERVAL_ERRORS, accuracy_in_cells
from regraft.core.evidence import CONFIDENCE, Evidence, HeldOutRows
from regraft.core.group_ties import share_errors
from regraft.core.heads import SourceHeads
from regraft.support.measured import MeasuredShare, around

_NEGLIGIBLE = 0.01  # of the rows: with very many of them, any model is a little wrong


@dataclass(frozen=True)
class SourceCheck:
    """Accuracy of a head in one source, and what the source's shares of the groups predict."""

    name: str
    measured: MeasuredShare
    predicted: MeasuredShare
    is_mixture: bool  # whether the two agree, all sources together with 95 % confidence


def find_outside(sources: SourceHeads, groups: Groups, held_out: HeldOutRows) -> tuple[int, ...]:
    """Return the numbers of the sources that are no mixtures of the groups, given the class.

    The accuracy of ``held_out`` in a source is compared to what its own shares of the classes, and
    of the groups in each class, predict: all sources together with 95 % confidence.
    """
    K, C, _ = groups.shares.shape
    of_class = torch.bincount(sources.domain * C + sources.y, sources.row_weight, K * C)
    of_class = of_class.reshape(K, C).to(groups.shares)
    of_class = (of_class / of_class.sum(dim=1, keepdim=True)).unsqueeze(2)  # (K, C, 1)
    weight = sources.weight.unsqueeze(1) * groups.posterior
    right, error = accuracy_in_cells(held_out.correct, weight, sources.y, C)  # (C, G)
    in_class = (groups.shares * right).sum(dim=2, keepdim=True)  # (K, C, 1)
    by_accuracy = of_class * groups.shares * error
    by_shares = of_class * (right - in_class) * share_errors(groups, sources.domain, sources.y)
    variance = (by_accuracy.square() + by_shares.square()).sum(dim=(1, 2))
    predicted = (of_class * in_class).sum(dim=(1, 2))
    counts = sources.row_weight.unsqueeze(1)
    measured, own_error = accuracy_in_cells(held_out.correct, counts, sources.domain, K)  # (K, 1)
    error = (variance + own_error.squeeze(1).square()).sqrt()
    allowed = (_critical(K) * error).clamp_min(_NEGLIGIBLE)
    outside = (measured.squeeze(1) - predicted).abs() > allowed
    return tuple(outside.nonzero().squeeze(1).tolist())


def _critical(n_sources: int) -> float:
    """Return how many standard errors each of the sources may be off, all together."""
    return float(ndtri(1 - (1 - CONFIDENCE) / (2 * n_sources)))


def check_mixtures(
    sources: Sequence[Evidence],
    groups: Sequence[Evidence],
    shares: Sequence[Sequence[float]],
    share_errors: Sequence[Sequence[float]],
) -> tuple[SourceCheck, ...]:
    """Compare the accuracy in each source to what its ``shares`` (K, G) of the groups predict."""
    critical = _critical(len(sources))
    return tuple(
        _check(source, own, errors, groups, critical)
        for source, own, errors in zip(sources, shares, share_errors, strict=True)
    )


def _check(
    source: Evidence,
    shares: Sequence[float],
    share_errors: Sequence[float],
    groups: Sequence[Evidence],
    critical: float,
) -> SourceCheck:
    value = sum(share * group.accuracy for share, group in zip(shares, groups, strict=True))
    variance = sum(
        (share * _error(group)) ** 2 + ((group.accuracy - value) * share_error) ** 2
        for share, share_error, group in zip(shares, share_errors, groups, strict=True)
    )
    distance, error = abs(source.accuracy - value), (variance + _error(source) ** 2) ** 0.5
    measured = MeasuredShare(source.accuracy, source.measured.low, source.measured.high)
    predicted = around(value, variance**0.5, INTERVAL_ERRORS)
    return SourceCheck(source.name, measured, predicted, distance <= critical * error)


def _error(evidence: Evidence) -> float:
    """Return the standard error of an accuracy, by the width of Wilson's interval."""
    return (evidence.measured.high - evidence.measured.low) / (2 * INTERVAL_ERRORS)
