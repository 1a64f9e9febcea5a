"""Texts of strangers neither steer a terminal nor end a chart."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regraft.support.plain_text import show_all_plainly, show_plainly


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x07", r"\x1b[2J\x07"),
        ("a\u2028b\u202ec\ufffe", r"a\u2028b\u202ec\ufffe"),
        ("\x9b1m\x00\r", r"\x9b1m\x00\r"),
        (
            "two\nlines,\ta tab, ä, 日本, 👩\u200d🔬, \ufffd",
            "two\nlines,\ta tab, ä, 日本, 👩\u200d🔬, \ufffd",
        ),
    ],
)
def test_what_steers_becomes_an_escape_and_the_rest_stays(text: str, shown: str) -> None:
    assert show_plainly(text) == shown


@given(st.text(st.characters()))
def test_nothing_is_left_that_steers_and_what_is_shown_stays(text: str) -> None:
    shown = show_plainly(text)
    kinds = {unicodedata.category(letter) for letter in shown if letter not in "\n\t"}
    assert not kinds & {"Cc", "Cs", "Zl", "Zp"}
    assert show_plainly(shown) == shown


def test_all_texts_of_plain_data_are_shown_plainly() -> None:
    given = {"name": ("\x07", 1.5, None), "more": [{"x": "\x1b"}, True]}
    assert show_all_plainly(given) == {"name": ["\\x07", 1.5, None], "more": [{"x": "\\x1b"}, True]}
