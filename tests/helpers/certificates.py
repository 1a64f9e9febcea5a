"""Certificates with bounds of one's own choice."""

from dataclasses import replace
from typing import TypeVar

from regraft.core.certificate import Certificate

AnyCertificate = TypeVar("AnyCertificate", bound=Certificate)


def with_risk_bound(certificate: AnyCertificate, risk_bound: float) -> AnyCertificate:
    """Return a certificate with evidence for this bound on the risk."""
    targets, sources = (
        tuple(replace(each, risk_bound=risk_bound) for each in evidence)
        for evidence in (certificate.targets, certificate.sources)
    )
    return replace(certificate, targets=targets, sources=sources)
