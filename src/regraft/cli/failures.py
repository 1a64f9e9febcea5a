"""What nobody foresaw, in one sentence each: errors of the program itself, interrupted imports."""

from __future__ import annotations

import errno
import platform
import signal
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from regraft._version import __version__
from regraft.support.plain_text import show_plainly

PROGRAM = "regraft"
INTERNAL_ERROR = 70  # exit code, which C programs use for the same (EX_SOFTWARE)
INTERRUPTED = 130  # likewise, by the shells' convention
NO_MEMORY = "the memory is not enough: pass fewer rows or features, or use a larger machine."
_FULL = errno.ENOSPC, errno.EDQUOT, errno.EFBIG
_ISSUES = "https://github.com/regraft/regraft/issues"
_LONG, _HALF = 2000, 900  # characters of a sentence, and of what is kept on either side
_SHOWN = 200  # characters of an error's own message


def complain(sentence: str) -> None:
    """Print one sentence about what is wrong on standard error, unless that is full or closed."""
    import typer  # late, for an interrupt of its import is heeded by the functions below

    with suppress(OSError):
        typer.echo(f"{PROGRAM}: {sentence}", err=True)


def describe_nameless_error(error: OSError) -> str:
    """Return one sentence about an error that the system reports of no file with a name."""
    if error.errno in _FULL:
        return f"the output cannot be written ({error.strerror}): check where it goes."
    if error.errno == errno.ENOMEM:
        return NO_MEMORY
    return f"the system cannot read or write ({error.strerror}): check the inputs and the output."


def shorten(sentence: str) -> str:
    """Cut the middle out of a sentence that quotes something very long, and show it plainly."""
    sentence = show_plainly(sentence)
    return sentence if len(sentence) <= _LONG else f"{sentence[:_HALF]} … {sentence[-_HALF:]}"


def describe_internal_error(error: BaseException) -> str:
    """Return one sentence about an error of the program, whose traceback goes to a file."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    shown = f"{name} ({text if len(text) <= _SHOWN else text[:_SHOWN] + '…'})" if text else name
    try:
        report = f", with the file {_write_traceback(error)}"
    except OSError:  # a full disk may be what is wrong
        report = ""
    return f"internal error: {shown}: please report it at {_ISSUES}{report}."


def _write_traceback(error: BaseException) -> str:
    with tempfile.NamedTemporaryFile(
        "w",
        prefix="regraft-error-",
        suffix=".txt",
        delete=False,
        encoding="utf-8",
        errors="backslashreplace",
    ) as file:
        file.write(f"regraft {__version__}, Python {platform.python_version()}, ")
        file.write(f"{platform.platform()}\n\n{''.join(traceback.format_exception(error))}")
        return file.name


@contextmanager
def heeding_interrupts() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` at the end of imports if Ctrl-C came in them.

    Libraries turn an interrupt in the middle of an import into other errors, or swallow it.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # ignored, or handled by someone else
        return
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        signal.default_int_handler(number, frame)

    try:
        signal.signal(signal.SIGINT, note)
    except ValueError:  # only the main thread is interrupted
        yield
        return
    try:
        yield
    except Exception:
        if not came:
            raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt
