"""What a result shows in a terminal, in a notebook and as a data frame."""

import sys
from dataclasses import dataclass

import pytest

from regraft.support.extras import MissingExtra
from regraft.support.shown import ShownResult
from regraft.support.table import Table, share


@dataclass(frozen=True, repr=False)
class Finding(ShownResult):
    words: tuple[str, ...]
    rows: tuple[tuple[str, float], ...] = (("<b>", 0.5),)

    def paragraphs(self) -> tuple[str, ...]:
        return self.words

    def table(self) -> Table:
        rows = tuple((name, share(value)) for name, value in self.rows)
        return Table("Found", ("name", "share"), rows)


def test_a_repr_is_the_first_paragraph_in_short_lines() -> None:
    lines = repr(Finding(("word " * 40, "never shown"))).splitlines()
    assert lines[0] == "Finding" and 2 < len(lines) < 6
    assert all(len(line) <= 88 and line.startswith("  ") for line in lines[1:])
    assert "never" not in "".join(lines)


def test_every_summary_is_one_string_of_all_paragraphs() -> None:
    assert Finding(("first", "second")).summary() == "first\nsecond"


def test_a_notebook_shows_all_paragraphs_and_the_table_escaped() -> None:
    html = Finding(("a < b", "second"))._repr_html_()
    assert "<p>a &lt; b</p>\n<p>second</p>\n<table>" in html
    assert "<b>" not in html and "&lt;b&gt;" in html and "50.0%" in html
    assert "<table>" not in Finding(("a",), rows=())._repr_html_()


def test_a_frame_has_the_columns_of_the_table() -> None:
    assert Finding(("a",)).to_frame().to_dict("list") == {"name": ["<b>"], "share": [0.5]}


def test_without_pandas_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"pandas .*regraft\[frames\]"):
        Finding(("a",)).to_frame()
