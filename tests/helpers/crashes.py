"""Run a command in a forked process, and kill it at one of its file operations."""

import json
import os
import shutil
import signal
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regraft.cli.app import app
from regraft.support.publishing import finish_publication

KILLED = 137
_SECONDS = 120
_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# How long it took and when, and what follows from that.
_TIMED = ("seconds", "written", "run", "files", "step_time", "mem_gb")
_KEPT_HIDDEN = (".lock", ".source.json")


@dataclass
class Operations:
    """The file operations of this process in ``root``, counted from 0; one of them is the last.

    The process is killed before the operation ``last``. If that flushes a file to disk and
    ``torn`` is true, half of what was not yet flushed is lost. Each operation is a line of ``log``,
    for a worker does not live to tell. With ``in_worker`` those of the first process that this one
    forks are counted instead.
    """

    root: str
    log: int  # an open file
    last: int | None = None
    torn: bool = False
    in_worker: bool = False
    _number: int = 0
    _flushed: dict[str, int] = field(default_factory=dict)  # bytes by path

    def __post_init__(self) -> None:
        self._counts, self._has_worker = not self.in_worker, False
        os.register_at_fork(after_in_parent=self._note_worker, after_in_child=self._enter_worker)

    def _note_worker(self) -> None:
        self._has_worker = True

    def _enter_worker(self) -> None:
        self._counts = self.in_worker and not self._has_worker

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str) and flags & _WRITING and self._is_ours(path):
                self._flushed.setdefault(path, os.stat(path).st_size if os.path.exists(path) else 0)
                self._count(f"open {path}")
        elif event in _CHANGES and self._is_ours(os.fsdecode(arguments[0])):
            self._count(f"{event} {os.fsdecode(arguments[0])}")

    def fsync(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        size = os.fstat(descriptor).st_size
        flushed = self._flushed.get(path, self._flushed.get(os.path.relpath(path), size))
        if self.torn and self._counts and self._number == self.last and size > flushed:
            os.truncate(path, (flushed + size) // 2)
        self._count(f"fsync {path}")

    def _is_ours(self, path: str) -> bool:
        return not os.path.isabs(path) or path.startswith(self.root)

    def _count(self, operation: str) -> None:
        if not self._counts:
            return
        if self._number == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        self._number += 1
        os.write(self.log, f"{operation}\n".encode())


def run_forked(
    folder: Path,
    words: Sequence[str],
    last: int | None = None,
    torn: bool = False,
    in_worker: bool = False,
) -> tuple[int, list[str]]:
    """Run ``regraft`` in ``folder``; return its exit code and its file operations there.

    With ``in_worker`` the operations are those of its first worker, which is also who is killed.
    """
    log = folder.with_name(folder.name + ".log")
    child = os.fork()
    if not child:
        _run(folder, words, log, (last, torn, in_worker))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return (KILLED if code == -signal.SIGKILL else code), log.read_text().splitlines()


def _run(
    folder: Path, words: Sequence[str], log: Path, kill: tuple[int | None, bool, bool]
) -> None:
    """Be the forked process, which never returns."""
    code: Any = 99
    try:
        signal.alarm(_SECONDS)
        os.chdir(folder)
        seen, errors = (
            os.open(str(log) + end, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for end in ("", ".err")
        )
        operations = Operations(str(folder), seen, *kill)
        for stream in (1, 2):
            os.dup2(errors, stream)
        sys.stdout, sys.stderr = (os.fdopen(stream, "w", closefd=False) for stream in (1, 2))
        os.fsync = operations.fsync  # type: ignore[assignment]
        sys.addaudithook(operations.hook)
        app(list(words), prog_name="regraft")
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 98)


def read_tree(folder: Path) -> dict[str, Any]:
    """Read the files that are not hidden, JSON without what differs from run to run."""
    tree: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            content = path.read_bytes()
            if path.suffix == ".html":  # which tells how long it took
                content = b"a whole page" if content.rstrip().endswith(b"</html>") else content
            if path.suffix == ".pt":
                content = _read_archive(path)
            if path.suffix == ".safetensors":
                content = _sort_header(content)
            if path.suffix == ".csv":
                content = _without_seconds(content)
            tree[name.as_posix()] = _without_times(content) if _is_json(path) else content
    return tree


def _read_archive(path: Path) -> bytes:
    """Read the code and the arrays of a TorchScript archive; the rest tells of one process."""
    with zipfile.ZipFile(path) as archive:
        names = sorted(archive.namelist())
        kept = [n for n in names if "/data/" in n or n.endswith((".py", ".pkl", ".json"))]
        return b"".join(archive.read(n) for n in kept)


def _sort_header(content: bytes) -> bytes:
    """Put the header of a safetensors file in order; the library draws that of its metadata."""
    end = 8 + int.from_bytes(content[:8], "little")
    return json.dumps(json.loads(content[8:end]), sort_keys=True).encode() + content[end:]


def _without_seconds(content: bytes) -> bytes:
    """Drop the column of how long it took, if a table has one."""
    rows = [line.split(b",") for line in content.splitlines()]
    if not rows or b"seconds" not in rows[0]:
        return content
    at = rows[0].index(b"seconds")
    return b"\n".join(b",".join([*row[:at], *row[at + 1 :]]) for row in rows)


def _is_json(path: Path) -> bool:
    return path.suffix in (".json", ".jsonl")


def _without_times(content: bytes) -> list[Any]:
    """Read JSON, or lines of it; of what is damaged, the bytes."""

    def drop(entry: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in entry.items() if key not in (*_TIMED, "sha256")}

    try:
        return [json.loads(content, object_hook=drop)]
    except ValueError:
        lines = [json.loads(line, object_hook=drop) for line in content.splitlines()]
        return sorted(lines, key=json.dumps)  # several requests at a time end in any order


def list_temporaries(folder: Path) -> list[str]:
    """List the hidden files and folders that no command means to leave."""
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*"))
    return [
        name
        for name in names
        if any(p.startswith(".") and p not in _KEPT_HIDDEN for p in name.split("/"))
    ]


def recover(folder: Path) -> None:
    """Do what every command does before it reads results."""
    finish_publication(folder)


def copy(source: Path, target: Path) -> Path:
    """Put a fresh copy of a folder in the place of another."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    return target
