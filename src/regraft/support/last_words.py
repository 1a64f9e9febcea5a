"""What is said of a process that is ended from outside, when it cannot speak any more."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Waits for the pipe to close: with a word in it if all went well, without one if its writer died.
_WAIT = "import sys; sys.stdin.buffer.read(1) or print(sys.argv[1], file=sys.stderr)"


@contextmanager
def leaving_last_words(sentence: str) -> Iterator[None]:
    """Have a small process print ``sentence`` on standard error if this one dies inside.

    Errors and interrupts are no such death: Python lives to tell of them.
    """
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _WAIT, sentence],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # so that Ctrl-C in a terminal does not reach it
    ) as listener:
        try:
            yield
        finally:
            listener.communicate(b".")
