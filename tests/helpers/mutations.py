"""Small damage to files: bytes of any, and keys and values of JSON."""

import json
import random
from typing import Any

_VALUES: tuple[Any, ...] = (None, True, -1, 0, 7, 1e300, "", "x", [], {}, [[]], "../../etc/passwd")


def mutate(content: bytes, draw: random.Random, is_json: bool) -> bytes:
    """Return other content: a few bytes changed, cut, put in or doubled, or JSON rewritten."""
    if is_json and draw.random() < 0.5:
        changed = _mutate_json(content, draw)
        if changed is not None:
            return changed
    at = draw.randrange(len(content))
    end = min(len(content), at + draw.choice((1, 1, 4, 64)))
    kind = draw.randrange(6)
    if kind == 0:
        return content[:at] + bytes([content[at] ^ (1 << draw.randrange(8))]) + content[at + 1 :]
    if kind == 1:
        return content[:at] + bytes([draw.randrange(256)]) + content[at + 1 :]
    if kind == 2:
        return content[:at]
    if kind == 3:
        return content[:at] + content[end:]
    if kind == 4:
        return content[:at] + draw.randbytes(end - at) + content[end:]
    return content[:end] + content[at:]


def _mutate_json(content: bytes, draw: random.Random) -> bytes | None:
    """Change one key or value of a document, or of one of its lines."""
    lines = content.splitlines(keepends=True)
    try:
        document = json.loads(content)
        before, after = b"", b""
    except ValueError:
        chosen = draw.randrange(len(lines))
        before, after = b"".join(lines[:chosen]), b"".join(lines[chosen + 1 :])
        try:
            document = json.loads(lines[chosen])
        except ValueError:
            return None
        after = b"\n" + after
    places = list(_places(document))
    if not places:
        return None
    parent, key = draw.choice(places)
    kind = draw.randrange(4)
    value = parent[key]
    if kind == 0:
        del parent[key]
    elif kind == 1 and isinstance(parent, dict):
        parent[f"{key}_"] = draw.choice(_VALUES)
    elif kind == 2 and isinstance(value, int | float) and not isinstance(value, bool):
        parent[key] = value + draw.choice((1, -1, 0.5, 1e-9))
    else:
        parent[key] = draw.choice(_VALUES)
    return before + json.dumps(document).encode() + after


def _places(node: Any) -> Any:
    """Yield all places of a document, as a container and a key."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        yield node, key
        if isinstance(value, dict | list):
            yield from _places(value)
