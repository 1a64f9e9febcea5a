"""How tests call the command line."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from regraft.cli.app import app
from regraft.cli.session import Invocation, Session
from tests.helpers.paths import SOURCE

# The moral experiment on few records, which several tests read the results of.
MORAL = ("moral", "run", "--records", 40, "--permissiveness", 1.68)
MAIN = "from regraft.cli.app import main; main()"
# A shell that starts tests in the background may leave SIGINT ignored.
_HEED_INTERRUPTS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


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


def list_names(folder: Path) -> list[str]:
    """List what is in a folder, hidden files aside; nothing if there is none."""
    entries = folder.iterdir() if folder.exists() else ()
    return sorted(entry.name for entry in entries if not entry.name.startswith("."))


def apart(
    *arguments: object, code: str = MAIN, path: Iterable[Path] = (), **variables: str
) -> dict[str, Any]:
    """Settings of a process of its own, in which ``path`` comes before everything else."""
    places = os.pathsep.join(map(str, (*path, SOURCE)))
    environment = os.environ | {"PYTHONPATH": places, "OMP_NUM_THREADS": "1"} | variables
    line = [sys.executable, "-c", code, *map(str, arguments)]
    return {"args": line, "env": environment, "text": True}


def run_apart(*arguments: object, cwd: Path | None = None, **settings: Any) -> Ran:
    """Call ``regraft``, or other ``code``, in a process of its own; settings as in ``apart``."""
    done = subprocess.run(**apart(*arguments, **settings), cwd=cwd, capture_output=True)
    return Ran(done.returncode, done.stdout, done.stderr)


def kill_when(
    is_time: Callable[[], bool], *arguments: object, delay: float = 0, **settings: Any
) -> None:
    """Kill a process of its own ``delay`` seconds after it is time; settings as in ``apart``."""
    with subprocess.Popen(**apart(*arguments, **settings), stdout=subprocess.DEVNULL) as process:
        while process.poll() is None and not is_time():
            time.sleep(0.002)
        time.sleep(delay)
        process.kill()
    assert process.returncode == -signal.SIGKILL  # it had not ended before


def hide_packages(folder: Path, *names: str) -> Path:
    """Make a folder for ``path`` in which these packages look as if they were not installed."""
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"raise ModuleNotFoundError(name={name!r})")
    return folder


def interrupt(
    folder: Path, when: Callable[[str], bool], *arguments: object, code: str = MAIN
) -> Ran:
    """Press Ctrl-C in a process that works in ``folder``, when it has printed what ``when`` asks.

    As in a terminal, the processes that it has started get the interrupt too.
    """
    log = folder.with_name(f"{folder.name}.log")
    settings = apart(*arguments, code=_HEED_INTERRUPTS + code)
    with (
        log.open("w") as file,
        subprocess.Popen(
            **settings, cwd=folder, stdout=file, stderr=subprocess.PIPE, start_new_session=True
        ) as process,
    ):
        while not when(log.read_text()):
            assert process.poll() is None
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    return Ran(process.returncode, log.read_text(), err)


Run = Callable[..., Ran]  # the fixture ``run``
RunOnce = Callable[..., tuple[Path, Ran]]  # the fixture ``run_once``
Once = Callable[[str, Callable[[Path], None]], Path]  # the fixture ``once``
