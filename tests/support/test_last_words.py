"""A sentence about a process that is killed, and none about one that ends otherwise."""

import signal

import pytest

from tests.helpers.commands import run_apart

CODE = """
import os, signal
from regraft.support.last_words import leaving_last_words
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
with leaving_last_words("it was ended."):
    {}
"""


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(1)"])
def test_a_process_that_is_ended_is_spoken_of(end: str) -> None:
    done = run_apart(code=CODE.format(end))
    assert done.code == (1 if "_exit" in end else -signal.SIGKILL)
    assert (done.out, done.err) == ("", "it was ended.\n")


@pytest.mark.parametrize(
    ("end", "last"),
    [
        ("pass", []),
        ("raise ValueError('wrong')", ["ValueError: wrong"]),
        ("raise SystemExit(3)", []),
        # As a terminal does: to all processes that belong to the command.
        ("os.setpgrp(); os.killpg(0, signal.SIGINT)", ["KeyboardInterrupt"]),
    ],
)
def test_one_that_can_speak_is_not(end: str, last: list[str]) -> None:
    done = run_apart(code=CODE.format(end))
    assert "it was ended" not in done.err
    assert done.err.splitlines()[-1:] == last
