"""Roles of docstrings, such as ``:func:`~regraft.audit```, as the plain code that they mean."""

from __future__ import annotations

import re
from typing import Any

_ROLE = re.compile(r":(?:class|func|meth|mod):<code>~?([^<]+)</code>")


def on_page_content(html: str, **_: Any) -> str:
    """Leave the last part of the name."""
    return _ROLE.sub(lambda role: f"<code>{role.group(1).rpartition('.')[2]}</code>", html)
