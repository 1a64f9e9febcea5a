"""Records that carry their own checksum, under a key that other programs may ignore."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from regraft.support.digests import digest_text
from regraft.support.json_files import digest_json

SEAL = "sha256"
CHANGED = "it was changed since it was written"


def seal(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record with its checksum as the last key, which must not be one of its own."""
    if SEAL in record:
        raise ValueError(f"a record has {SEAL!r}, which is the key of its checksum: rename it.")
    return {**record, SEAL: digest_json(dict(record))}


def unseal(record: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return a record that was read as JSON, without its checksum, and whether it has one.

    Raises ``ValueError`` with the reason if it is not the record that was sealed.
    """
    rest = {key: value for key, value in record.items() if key != SEAL}
    if SEAL not in record:
        return rest, False
    # As ``digest_json``, less what was done when the record was read.
    if record[SEAL] != digest_text(json.dumps(rest, sort_keys=True)):
        raise ValueError(CHANGED)
    return rest, True
