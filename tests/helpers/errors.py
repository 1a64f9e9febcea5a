"""What every error message has to be: one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def one_sentence(error: object, path: Path | None = None) -> str:
    """Check the message of an error, in which ``path`` may have full stops of its own."""
    message = str(error) if path is None else str(error).replace(str(path), "path")
    assert message.endswith(".") and ". " not in message and "\n" not in message
    return message


@contextmanager
def refused(
    match: str,
    kind: type[Exception] | tuple[type[Exception], ...] = ValueError,
    path: Path | None = None,
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Expect an error that ``match`` finds and that is one sentence."""
    with pytest.raises(kind, match=match) as caught:
        yield caught
    one_sentence(caught.value, path)
