"""What nobody foresaw takes one sentence, and its traceback goes to a file."""

import tempfile
from pathlib import Path

import pytest

from regraft.cli.failures import INTERNAL_ERROR
from regraft.data import labelled
from tests.helpers.commands import Run, run_apart

MODULE_MAIN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from regraft.__main__ import main; main()"
)
# A package that is interrupted while it is imported, and turns that into another error.
INTERRUPTED = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except BaseException:
    {then}
"""


@pytest.mark.parametrize(
    "error",
    [
        KeyError("radius"),
        TypeError("two\nlines of " + 80 * "text, "),
        OverflowError(),
        RecursionError("maximum recursion depth exceeded"),
        StopIteration(),
        RuntimeError("The size of tensor a (3) must match the size of tensor b (4)"),
        AssertionError(),
        NotImplementedError("no kernel"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_internal_errors(
    error: Exception, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(labelled, "read_table", fail)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ran = run("fit", "data.csv", "--out", tmp_path / "out", "--quiet")
    assert ran.code == INTERNAL_ERROR == 70
    name = type(error).__name__
    assert ran.err.startswith(f"regraft: internal error: {name}") and ran.err.count("\n") == 1
    (report,) = tmp_path.glob("*")
    assert ran.err.endswith(f"/issues, with the file {report}.\n") and len(ran.err) < 500
    text = report.read_text()
    assert text.startswith("regraft ") and "Traceback (most recent call last)" in text
    assert f"{name}" in text.splitlines()[-1] or "lines of" in text


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("[enforce fail at alloc_cpu.cpp] can't allocate memory: 8 TB")],
    ids=lambda error: type(error).__name__,
)
def test_too_little_memory_is_no_internal_error(
    error: Exception, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(labelled, "read_table", fail)
    ran = run("fit", "data.csv", "--out", tmp_path / "out", "--quiet")
    assert ran.code == 2 and ran.err.startswith("regraft: the memory is not enough: pass fewer")


@pytest.mark.parametrize("then", ["raise ImportError('odd')", "raise", "pass"])
@pytest.mark.parametrize("package", ["typer", "torch"])
def test_interrupted_imports(package: str, then: str, tmp_path: Path) -> None:
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text(INTERRUPTED.format(then=then))
    out = tmp_path / "out"
    ran = run_apart("fit", "d.csv", "--out", out, "--quiet", code=MODULE_MAIN, path=[tmp_path])
    assert (ran.code, ran.out) == (130, "")
    assert ran.err == "regraft: interrupted: nothing was written.\n"
    assert not out.exists()
