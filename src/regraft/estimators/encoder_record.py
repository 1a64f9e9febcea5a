"""What a model remembers of the encoder that made its features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class EncoderRecord(NamedTuple):
    """All that it takes to load an encoder again, and to know whether it is the same."""

    name: str
    fingerprint: str  # checksum of its weights
    weights: str = ""  # name of the file that they were read from; "" for the encoder's own
    kind: str = ""  # what it encodes: images or texts; arrays or "" if that is not known
    preprocessing: Mapping[str, Any] | None = None  # what was done to inputs; None if not known
