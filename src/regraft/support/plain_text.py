"""Text of strangers as it may be shown: what steers a terminal or ends XML becomes an escape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Control characters but tab and line feed, separators of lines, what turns the direction of all
# that follows, surrogates, and what Unicode keeps for no character and XML does not allow.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)


def show_plainly(text: str) -> str:
    r"""Return ``text`` with what would steer a terminal written as escapes such as ``\x1b``."""
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def show_all_plainly(value: Any) -> Any:
    """Return plain data, such as that of a chart, with all texts in it shown plainly."""
    if isinstance(value, str):
        return show_plainly(value)
    if isinstance(value, Mapping):
        return {key: show_all_plainly(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [show_all_plainly(item) for item in value]
    return value
