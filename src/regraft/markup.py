"""Text as other languages write it."""

from __future__ import annotations

_LATEX_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def escape_latex(text: str) -> str:
    """``text`` as LaTeX writes it."""
    return "".join(_LATEX_SIGNS.get(character, character) for character in text)


def escape_markdown(text: str) -> str:
    """``text`` as a cell of a Markdown table."""
    return text.replace("|", r"\|")
