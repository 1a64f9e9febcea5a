"""Signs that mean something else in another language."""

from __future__ import annotations

import pytest

from regraft.support.markup import escape_latex, escape_markdown


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("art_painting", r"art\_painting"),
        ("90% & $5 #1 {a}", r"90\% \& \$5 \#1 \{a\}"),
        ("a\\b~c^d", r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d"),
        ("V-REx", "V-REx"),
    ],
)
def test_latex(text: str, written: str) -> None:
    assert escape_latex(text) == written


def test_markdown() -> None:
    assert escape_markdown("a|b_c") == r"a\|b_c"
