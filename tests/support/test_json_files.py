"""Results as files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regraft.support.files import write_text
from regraft.support.json_files import dumps, write_result


def test_files_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_text(tmp_path / "new" / "t.csv", "a,b\n1,é\n")
    assert (tmp_path / "new" / "t.csv").read_text("utf-8") == "a,b\n1,é\n"
    with pytest.raises(UnicodeEncodeError):
        write_text(tmp_path / "new" / "t.csv", "\ud800")
    assert [entry.name for entry in (tmp_path / "new").iterdir()] == ["t.csv"]
    assert (tmp_path / "new" / "t.csv").read_text("utf-8").startswith("a,b")


def test_json_has_no_infinities() -> None:
    document = {"a": [1.0, float("inf")], "b": (float("nan"), "x", True, None)}
    assert json.loads(dumps(document)) == {"a": [1.0, None], "b": [None, "x", True, None]}


def test_results_need_a_folder(tmp_path: Path) -> None:
    assert write_result(None, "r.json", {}, "r.png", Path.touch) == []
    files = write_result(tmp_path / "out", "r.json", {"a": 1}, "r.png", Path.touch)
    assert [file.name for file in files] == ["r.json", "r.png"]
    assert sorted(entry.name for entry in (tmp_path / "out").iterdir()) == ["r.json", "r.png"]
