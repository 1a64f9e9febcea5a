"""JSON without infinities, and lines of it that survive a kill."""

import json
from pathlib import Path

import pytest

from regraft.support.json_files import (
    append_json,
    drop_torn_line,
    dumps,
    parse_object,
    read_lines,
)


def test_json_has_no_infinities_and_lines_have_numbers(tmp_path: Path) -> None:
    document = {"a": [1.0, float("inf")], "b": (float("nan"), "x", True, None)}
    assert json.loads(dumps(document)) == {"a": [1.0, None], "b": [None, "x", True, None]}
    path = tmp_path / "lines.jsonl"
    assert list(read_lines(path)) == []
    append_json(path, {"a": 1.0})
    append_json(path, {"b": float("nan")})
    path.write_bytes(path.read_bytes() + b'\r\n{"c":')
    lines = list(read_lines(path))
    assert [(line.number, line.content, line.is_whole) for line in lines] == [
        (1, b'{"a": 1.0}\n', True),
        (2, b'{"b": null}\n', True),
        (3, b"\r\n", True),
        (4, b'{"c":', False),
    ]


def test_only_a_torn_line_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    drop_torn_line(path)  # none there
    for content, kept in ((b"1\n2\n", b"1\n2\n"), (b"1\n2", b"1\n"), (b"1", b""), (b"", b"")):
        path.write_bytes(content)
        drop_torn_line(path)
        assert path.read_bytes() == kept


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a": ', "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"null", "not a JSON object"),
    ],
)
def test_what_is_no_object_has_a_reason(text: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        parse_object(text)
    assert parse_object('{"a": 1}') == {"a": 1}
