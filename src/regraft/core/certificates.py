"""Certificates of every family."""

from __future__ import annotations

from typing import Any

from regraft.core.certificate import Certificate
from regraft.core.group_certificate import GroupCertificate

AnyCertificate = Certificate | GroupCertificate


def certificate_from_dict(data: dict[str, Any]) -> AnyCertificate:
    """Rebuild a certificate from its ``to_dict``, also after a round trip through JSON."""
    if data["family"] == "latent":
        return GroupCertificate.from_dict(data)
    return Certificate.from_dict(data)
