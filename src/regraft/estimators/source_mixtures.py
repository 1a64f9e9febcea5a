"""Sources that are no mixtures of the groups found: look them up, and name them."""

from __future__ import annotations

from collections.abc import Sequence

from regraft.core.certificate import Certificate
from regraft.core.group_certificate import GroupCertificate
from regraft.core.source_mixtures import SourceCheck, check_mixtures


def check_sources(certificate: Certificate) -> tuple[SourceCheck, ...]:
    """Compare each source's measured accuracy to what a mixture of the groups would have.

    Empty where nothing is predicted: without groups, without the evidence in each group alone (as
    in certificates of old versions), or where each class mixes the groups in its own way.
    """
    c = certificate
    if not isinstance(c, GroupCertificate) or c.n_groups == 1 or c.class_groups or not c.groups:
        return ()
    return check_mixtures(c.sources, c.groups, c.abduction["shares"], c.abduction["share_errors"])


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
