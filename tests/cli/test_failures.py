"""What nobody foresaw takes one sentence, and its traceback goes to a file."""

import errno
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from regraft.cli.failures import INTERNAL_ERROR, describe_nameless_error
from regraft.data import labelled
from tests.helpers.commands import Run, apart, run_apart
from tests.helpers.tables import write_columns

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


@pytest.mark.parametrize("place", ["guarded", "read"])
def test_an_interrupt_before_a_command_begins(
    place: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    if place == "guarded":  # between the reading of options and the work
        monkeypatch.setattr("warnings.catch_warnings.__enter__", stop)
    else:
        monkeypatch.setattr("typer.core.TyperGroup.parse_args", stop)
    ran = run("fit", "data.csv", "--out", tmp_path / "out")
    monkeypatch.undo()
    assert (ran.code, ran.out) == (130, "")
    assert ran.err == "regraft: interrupted: nothing was written.\n"


def test_an_output_of_another_encoding_is_written_all_the_same(tmp_path: Path) -> None:
    cells = {
        "x": [i * i % 17 / 3 for i in range(80)],
        "label": [0, 1] * 40,
        "domain": ["Zürich", "Genève", "a", "b"] * 20,
    }
    data = write_columns(tmp_path / "data.csv", {name: list(each) for name, each in cells.items()})
    options = ("--family", "hull", "--radius", 1, "--ridge", 0.1)
    ran = run_apart("fit", data, "--out", tmp_path / "o", *options, PYTHONIOENCODING="ascii")
    assert ran.code == 0, ran.err
    assert "Z\\xfcrich" in ran.out and "Gen\\xe8ve" in ran.out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here")
@pytest.mark.parametrize("words", [("doctor",), ("fit", "--help")])
def test_a_full_disk_behind_the_output_takes_a_sentence(words: tuple[str, ...]) -> None:
    settings = apart(*words)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(**settings, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    told = "regraft: the output cannot be written (No space left on device): check where it goes."
    assert done.stderr.splitlines()[:1] == [told]


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, "the output cannot be written"),
        (errno.ENOMEM, "the memory is not enough"),
        (errno.EIO, "the system cannot read or write (Input/output error)"),
        (errno.ECONNREFUSED, "the system cannot read or write (Connection refused)"),
    ],
)
def test_errors_of_no_file_with_a_name_are_told_as_what_they_are(number: int, told: str) -> None:
    assert describe_nameless_error(OSError(number, os.strerror(number))).startswith(told)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here")
@pytest.mark.parametrize("words", [("report", "nowhere"), ("fit", "--no-such-option")])
def test_a_full_disk_behind_the_errors_leaves_the_exit_code(words: tuple[str, ...]) -> None:
    settings = apart(*words)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(**settings, stdout=subprocess.DEVNULL, stderr=full)
    assert done.returncode == 2


@pytest.mark.parametrize(
    "words", [("fit", "data.csv", "--out", ""), ("fit", "data.csv", "--out="), ("report", "")]
)
def test_an_empty_argument_is_not_the_current_folder(
    words: tuple[str, ...], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run(*words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "regraft: an argument is empty: give it a value, or leave it out.\n"
    assert list(tmp_path.iterdir()) == []
