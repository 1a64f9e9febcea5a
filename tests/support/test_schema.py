"""Records that cannot be are told, with the key at fault."""

from typing import Any

import pytest

from regraft.support.schema import (
    COUNT,
    SHA256,
    SHARE,
    TEXT,
    check_fields,
    list_of,
    object_of,
    one_of,
    or_null,
)

KINDS = {
    "accuracy": SHARE,
    "rows": COUNT,
    "names": list_of(TEXT),
    "answer": or_null(one_of("A", "B")),
    "files": object_of(SHA256),
}
GOOD = {"accuracy": 0.5, "rows": 3, "names": ["a"], "answer": None, "files": {"x": "0" * 64}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"accuracy": 7}, "^'accuracy' is not a number from 0 to 1$"),
        ({"accuracy": True}, "'accuracy' is not"),
        ({"accuracy": float("nan")}, "'accuracy' is not"),
        ({"rows": 1.0}, "'rows' is not a whole number from 0"),
        ({"rows": -1}, "'rows' is not"),
        ({"names": ["a", 1]}, "'names' is not a list, each member text"),
        ({"answer": "C"}, "'answer' is not among"),
        ({"files": {"x": "0"}}, "'files' is not an object, each value a sha256"),
        ({"other": 1}, "other is not a key of it"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], message: str) -> None:
    check_fields(GOOD, KINDS)
    with pytest.raises(ValueError, match=message):
        check_fields({**GOOD, **change}, KINDS)


def test_missing_keys_and_other_things_are_told() -> None:
    less = {name: GOOD[name] for name in GOOD if name != "rows"}
    check_fields(less, KINDS, optional=("rows",))
    with pytest.raises(ValueError, match=r"^'entry\.rows' is missing$"):
        check_fields(less, KINDS, where="entry")
    with pytest.raises(ValueError, match=r"^it is not an object$"):
        check_fields([], KINDS)
