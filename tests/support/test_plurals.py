"""Numbers with their nouns."""

from regraft.support.plurals import count


def test_one_is_singular() -> None:
    assert count(1, "broken images") == "1 broken image"
    assert count(2, "broken images") == "2 broken images"
    assert count(0, "texts") == "0 texts"
    assert count(1, "entries") == "1 entry"
