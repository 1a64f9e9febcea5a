"""Items made ahead are the items."""

import threading
from collections.abc import Iterator

import pytest

from regraft.support.prefetch import ahead


def test_the_items_and_an_error_come_in_their_order() -> None:
    assert list(ahead(range(5))) == [0, 1, 2, 3, 4]
    assert list(ahead([])) == []
    assert list(ahead([None, None])) == [None, None]

    def items() -> Iterator[int]:
        yield 0
        raise ValueError("no more")

    coming = ahead(items())
    assert next(coming) == 0
    with pytest.raises(ValueError, match="no more"):
        next(coming)


def test_one_is_made_while_another_is_used() -> None:
    second_is_made = threading.Event()

    def items() -> Iterator[int]:
        yield 0
        second_is_made.set()
        yield 1

    coming = ahead(items())
    assert next(coming) == 0
    assert second_is_made.wait(10)
    assert list(coming) == [1]
