"""Whether the sources are the mixtures of groups that their shares say they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import ndtri

from regraft.core.evidence import CONFIDENCE, Evidence
from regraft.support.measured import MeasuredShare, around

_ERRORS = float(ndtri((1 + CONFIDENCE) / 2))  # on either side of a 95 % interval


@dataclass(frozen=True)
class SourceCheck:
    """Accuracy of a head in one source, and what the source's shares of the groups predict."""

    name: str
    measured: MeasuredShare
    predicted: MeasuredShare
    is_mixture: bool  # whether the two agree, all sources together with 95 % confidence


def check_mixtures(
    sources: Sequence[Evidence],
    groups: Sequence[Evidence],
    shares: Sequence[Sequence[float]],
    share_errors: Sequence[Sequence[float]],
) -> tuple[SourceCheck, ...]:
    """Compare the accuracy in each source to what its ``shares`` (K, G) of the groups predict."""
    critical = float(ndtri(1 - (1 - CONFIDENCE) / (2 * len(sources))))
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
    predicted = around(value, variance**0.5, _ERRORS)
    return SourceCheck(source.name, measured, predicted, distance <= critical * error)


def _error(evidence: Evidence) -> float:
    """Return the standard error of an accuracy, by the width of Wilson's interval."""
    return (evidence.measured.high - evidence.measured.low) / (2 * _ERRORS)
