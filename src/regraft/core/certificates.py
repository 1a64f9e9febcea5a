"""Certificates of every family."""

from __future__ import annotations

from typing import Any

from regraft.core.certificate import Certificate
from regraft.core.group_certificate import GroupCertificate
from regraft.core.head_certificate import HeadCertificate
from regraft.support.runs import RUN


def certificate_from_dict(data: dict[str, Any]) -> Certificate:
    """Rebuild a certificate from its ``to_dict``, also after a round trip through JSON.

    The id of a run, which a file of ``regraft fit`` has, is left out.
    """
    data = {name: value for name, value in data.items() if name != RUN}
    if data["family"] == "latent":
        return GroupCertificate.from_dict(data)
    return HeadCertificate.from_dict(data)
