"""Pictures: where they are written, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from regraft.auditing import AuditCurve, AuditPoint

CURVE = AuditCurve(tuple(AuditPoint(r, 0.5 + r, 0.8, {}, {}, 10.0) for r in (0.0, 1.0)), 0.8)


@pytest.mark.parametrize("name", ["x.png", "x.PNG", "x"])
def test_folders_are_made(tmp_path: Path, name: str) -> None:
    path = tmp_path / "new" / "deeper" / name
    CURVE.plot(str(path))
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [entry.name for entry in path.parent.iterdir()] == [name]


def test_an_unknown_format_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"use \.png, \.svg or \.pdf") as caught:
        CURVE.plot(str(tmp_path / "new" / "x.doc"))
    message = str(caught.value).replace(str(tmp_path), "")
    assert message.endswith(".") and ". " not in message and "\n" not in message
    assert list(tmp_path.iterdir()) == []
