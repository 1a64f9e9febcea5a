"""Certificates of every family."""

from __future__ import annotations

from typing import Any

from regraft.core.certificate import Certificate
from regraft.core.group_certificate import GroupCertificate
from regraft.core.head_certificate import HeadCertificate


def certificate_from_dict(data: dict[str, Any]) -> Certificate:
    """Rebuild a certificate from its ``to_dict``, also after a round trip through JSON."""
    if data["family"] == "latent":
        return GroupCertificate.from_dict(data)
    return HeadCertificate.from_dict(data)
