"""What a command may do under attack, and a tally of what it did."""

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

DOCUMENTED = {0: "done", 1: "doctor found a fault", 2: "refused", 3: "alarm", 130: "interrupted"}
MAX_WARNINGS = 12
_SECONDS = 120  # that a case may take


class TookTooLong(BaseException):
    """A case that does not end; nothing catches it by mistake."""


@contextmanager
def time_limit(seconds: int = _SECONDS) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def find_fault(code: int, err: str) -> str | None:
    """Say what is wrong with the end of a command, if anything is."""
    if code not in DOCUMENTED:
        return f"exit code {code}"
    if "Traceback" in err:
        return "a traceback"
    lines = err.splitlines()
    warnings = [line for line in lines if line.startswith("warning: ")]
    others = [line for line in lines if not line.startswith("warning: ")]
    if len(warnings) > MAX_WARNINGS:
        return f"{len(warnings)} warnings"
    if code == 2 and not (
        len(others) == 1 and others[0].startswith("regraft: ") and others[0].endswith((".", "?"))
    ):
        return f"{len(others)} lines instead of one sentence"
    if code == 2 and len(others[0]) > 4000:
        return f"a sentence of {len(others[0])} characters"
    return None


def list_temporaries(folder: Path) -> list[str]:
    """List what a writer left under a hidden name; the locks of folders stay."""
    hidden = (path for path in folder.rglob(".*") if path.name not in (".lock", ".unfinished"))
    return sorted(str(path.relative_to(folder)) for path in hidden)


def show_tally(title: str, tally: Counter[str]) -> str:
    rows = "\n".join(f"| {name} | {count:,} |" for name, count in sorted(tally.items()))
    return f"\n{title}\n| outcome | cases |\n|---|---:|\n{rows}\n"
