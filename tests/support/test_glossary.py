"""The glossary: each word once, one or two sentences, known wherever it is asked for."""

import ast
import re

import pytest

from regraft.report.writing import WORDS
from regraft.support.data_files import read_toml
from regraft.support.glossary import meaning, read_glossary
from tests.helpers.paths import SOURCE

ALL = [(word, text) for words in read_glossary().values() for word, text in words.items()]


def test_a_word_is_explained_once_and_wherever_it_is_asked_for() -> None:
    names = [word.lower() for word, _ in ALL]
    assert len(names) == len(set(names)) > 40
    assert len({text for _, text in ALL}) == len(ALL)
    # In the report, in a certificate, and elsewhere in the package, without running the code.
    terms = read_toml("regraft.estimators", "certificate_terms.toml")
    unexplained = [t["name"] for group in terms.values() for t in group if "meaning" not in t]
    asked = {*WORDS, *unexplained}
    for path in (SOURCE / "regraft").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "meaning":
                asked |= {a.value for a in node.args if isinstance(a, ast.Constant)}
    assert {"duality gap", "transplant rank"} <= set(unexplained)
    assert asked <= {word for word, _ in ALL}
    with pytest.raises(KeyError):
        meaning("nonsense")


@pytest.mark.parametrize(("word", "text"), ALL)
def test_an_explanation_is_short_and_whole(word: str, text: str) -> None:
    assert meaning(word) == text and text.endswith(".") and text[0].isupper()
    assert len(re.findall(r"\.(?:\s|$)", text)) <= 3 and len(text) < 250
    assert "|" not in text  # which would end a cell of the page
