"""A folder that cannot take results is refused before anything is read or computed."""

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from regraft.cli.output_folder import check_output
from tests.helpers.commands import Run

LINES = [
    "fit {tmp}/none.csv",
    "predict {tmp}/none {tmp}/none.csv",
    "abduct {tmp}/none.csv",
    "compare {tmp}/none.csv",
    "demo",
    "embed text {tmp}/none.csv",
    "moral run",
    "reproduce cmnist",
    "sweep --datasets none",
    "train --dataset none",
    "export {tmp}/none --to json",
    "report {tmp}/none",
]


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    def sync(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", sync)


@pytest.mark.parametrize("line", LINES)
def test_a_full_disk_is_told_first(run: Run, tmp_path: Path, full: None, line: str) -> None:
    out = tmp_path / "new" / "out"
    ran = run(*line.format(tmp=tmp_path).split(), "--out", out)
    assert ran.code == 2 and ran.out == "" and ran.err.count("\n") == 1
    named = out.parent if line.split()[0] in ("export", "report") else out  # of a file
    assert ran.err.startswith(f"regraft: {named} does not fit on the disk, where ")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB, on machines where one may be made."""
    disk = tmp_path / "disk"
    disk.mkdir()
    line = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)]
    if shutil.which("mount") is None or subprocess.run(line, capture_output=True).returncode:
        pytest.skip("this user may not mount a disk")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_is_full(small_disk: Path) -> None:
    check_output(small_disk / "out")
    (small_disk / "other").write_bytes(bytes(4096))
    with pytest.raises(OSError, match=r"does not fit on the disk, where .* free some space"):
        check_output(small_disk / "out")
    assert [path.name for path in small_disk.iterdir()] == ["other"]


def _link(tmp: Path) -> Path:
    (tmp / "link").symlink_to(tmp / "nothing")
    return tmp / "link"


def _file(tmp: Path) -> Path:
    (tmp / "file").touch()
    return tmp / "file" / "out"


ODD: dict[str, Callable[[Path], Path]] = {
    "is a link to nothing": _link,
    "is a file": _file,
    "File name too long": lambda tmp: tmp / ("x" * 300) / "out",
}


@pytest.mark.parametrize("message", ODD)
def test_what_cannot_be_a_folder(tmp_path: Path, message: str) -> None:
    out = ODD[message](tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ValueError, match=f"{message}.*choose another folder with --out"):
        check_output(out)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_folder_that_takes_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ValueError, match=r"(Read-only|not writable).*with --out"):
        check_output(tmp_path / "out")


def test_a_good_folder_stays_as_it_is(tmp_path: Path) -> None:
    check_output(tmp_path / "new" / "out")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".regraft-trial.0123abcd~").touch()  # as a kill would leave it
    check_output(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="names there are always text")
@pytest.mark.parametrize("line", ["fit {tmp}/data.csv --out {odd}", "fit {odd} --out {tmp}/out"])
def test_names_that_are_no_text_are_refused(run: Run, tmp_path: Path, line: str) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    ran = run(*(word.format(tmp=tmp_path, odd=odd) for word in line.split()))
    assert ran.code == 2 and ran.err.endswith("\\udcff' is not text in UTF-8: rename it.\n")
