"""How tests call the command line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from regraft.cli.app import app
from regraft.cli.session import Invocation, Session


def make_session(out: Path | None = None, *, as_json: bool = False) -> Session:
    """Make what a command gets, for those tests that leave out the command line."""
    session = Session(Invocation("test", ("regraft", "test"), {}, []), as_json=as_json)
    session.write_to(out)
    return session


def call(arguments: Iterable[object]) -> None:
    """Call ``regraft`` in this process; it must succeed."""
    words = [str(argument) for argument in arguments]
    with pytest.raises(SystemExit) as ended:
        app(words, prog_name="regraft")
    assert not ended.value.code, words


@dataclass(frozen=True)
class Ran:
    """What a command of the command line did."""

    code: int
    out: str
    err: str
