import errno
import shutil
from pathlib import Path

import pytest

from regraft.support.files import (
    append_line,
    explaining_full_disk,
    remove_unfinished,
    write_bytes,
    write_text,
)


def test_lines_and_files_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "c"
    write_text(path, "é\n")
    with pytest.raises(TypeError):
        write_bytes(path, "not bytes")  # type: ignore[arg-type]
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert [(p.name, p.read_bytes()) for p in path.parent.iterdir()] == [("c", "é\n".encode())]
    path = tmp_path / "lines"
    append_line(path, b"one\n")
    append_line(path, b"two\n")
    assert path.read_bytes() == b"one\ntwo\n"
    if Path("/dev/full").exists():  # the kernel's own full disk
        with pytest.raises(OSError, match="of 6 bytes does not fit on the disk"):
            append_line(Path("/dev/full"), b"three\n")


def test_only_unfinished_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = ["c.safetensors", ".hidden", ".c.safetensors.lock", "c.0123abcd~", ".c.20240101"]
    for name in others:
        (tmp_path / name).touch()
    with monkeypatch.context() as killed:
        killed.setattr(Path, "replace", lambda *_: None)
        killed.setattr(Path, "unlink", lambda *_, **__: None)
        write_bytes(tmp_path / "new.safetensors", b"half")
    assert len(list(tmp_path.iterdir())) == len(others) + 1
    remove_unfinished(tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == set(others)
    remove_unfinished(tmp_path / "no such folder")


def test_the_disk_that_is_told_of_is_that_of_the_folder_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(folder: Path) -> object:
        assert folder == tmp_path
        return type("Usage", (), {"free": 12})

    monkeypatch.setattr(shutil, "disk_usage", look)
    for path, what in (
        (tmp_path, f"what goes to {tmp_path}"),
        (tmp_path / "new", f"{tmp_path}/new"),
    ):
        with pytest.raises(OSError) as told, explaining_full_disk(path):
            raise OSError(errno.ENOSPC, "full")
        assert str(told.value).startswith(f"{what} does not fit on the disk, where 12 bytes")
