"""Whether the sources are the mixtures of groups that their shares say they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import norm

from regraft.core.certificate import Certificate
from regraft.core.evidence import CONFIDENCE, Evidence
from regraft.core.group_certificate import GroupCertificate
from regraft.support.measured import MeasuredShare, around

_ERRORS = float(norm.ppf((1 + CONFIDENCE) / 2))  # on either side of a 95 % interval


@dataclass(frozen=True)
class SourceCheck:
    """Accuracy of a head in one source, and what the source's shares of the groups predict."""

    name: str
    measured: MeasuredShare
    predicted: MeasuredShare
    is_mixture: bool  # whether the two agree, all sources together with 95 % confidence


def check_sources(certificate: Certificate) -> tuple[SourceCheck, ...]:
    """Compare each source's measured accuracy to what a mixture of the groups would have.

    Empty where nothing is predicted: without groups, without the evidence in each group alone (as
    in certificates of old versions), or where each class mixes the groups in its own way.
    """
    c = certificate
    if not isinstance(c, GroupCertificate) or c.n_groups == 1 or c.class_groups or not c.groups:
        return ()
    columns = c.sources, c.abduction["shares"], c.abduction["share_errors"]
    critical = float(norm.ppf(1 - (1 - CONFIDENCE) / (2 * len(c.sources))))
    return tuple(
        _check(source, shares, errors, c.groups, critical)
        for source, shares, errors in zip(*columns, strict=True)
    )


def describe_outside(checks: Sequence[SourceCheck]) -> str:
    """Say which sources are no mixtures of the groups found; empty if all may be."""
    outside = [each for each in checks if not each.is_mixture]
    if not outside:
        return ""
    names = ", ".join(each.name for each in outside)
    one = len(outside) == 1
    are, where, them = ("is", "it", "it") if one else ("are", "each", "them")
    return (
        f"{len(outside)} of {len(checks)} sources ({names}) {are} not a mixture of the groups "
        f"found: the accuracy measured in {where} is not what its groups predict. The certificate "
        f"does not speak about {them}, nor about new domains like {them}."
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
