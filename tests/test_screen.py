from __future__ import annotations

import pytest

from regraft.screen import Screen


def test_a_wide_table_is_not_cut_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    columns = ["head", *(f"unseen domain {i}" for i in range(9))]
    Screen(False).table(columns, [["CRO", *(f"{i}2.34%" for i in range(9))]])
    shown = capsys.readouterr().out
    for text in (*columns, *(f"{i}2.34%" for i in range(9))):
        assert text in shown
    assert "…" not in shown


def test_json_leaves_no_room_for_tables(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(True).table(["a", "b"], [["1", "2"]])
    assert capsys.readouterr().out == ""
