"""Numbers of things, in words."""

from __future__ import annotations


def count(n: int, things: str) -> str:
    """Return ``n`` with its noun, such as ``1 image`` or ``2 images``; ``things`` is the plural."""
    singular = f"{things[:-3]}y" if things.endswith("ies") else things.removesuffix("s")
    return f"{n} {singular if n == 1 else things}"
