from pathlib import Path

import pytest

from regraft.support.files import append_line, remove_unfinished, write_bytes, write_text


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
    others = ["c.safetensors", ".hidden", ".c.safetensors.lock", "c.0123abcd"]
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
