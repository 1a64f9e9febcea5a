"""The words of the method, each explained once for the report, the documentation and the help."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from regraft.support.data_files import read_toml


@cache
def read_glossary() -> Mapping[str, Mapping[str, str]]:
    """Return the words with their meanings, grouped under headings."""
    return read_toml("regraft.support", "glossary.toml")


def meaning(word: str) -> str:
    """Return what ``word`` means, in one or two sentences."""
    return {w: text for words in read_glossary().values() for w, text in words.items()}[word]
