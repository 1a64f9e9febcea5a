"""Files are looked at before they are read."""

import os
from pathlib import Path

import pytest

from regraft.support import reading
from regraft.support.json_files import load_json, parse_object, read_lines
from regraft.support.reading import check_file, check_fits, read_file, show_bytes


def test_pipes_and_devices_are_refused_unread(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # opening it would never end
    for path in (pipe, Path("/dev/zero")):
        for read in (check_file, read_file, lambda path: list(read_lines(path))):
            with pytest.raises(ValueError, match="is a pipe, a device or a socket: pass a regular"):
                read(path)


def test_links_may_not_leave_a_folder(tmp_path: Path) -> None:
    inside, outside = tmp_path / "folder", tmp_path / "secret"
    inside.mkdir()
    outside.write_text("text")
    (inside / "own").write_text("text")
    (inside / "near").symlink_to("own")
    (inside / "far").symlink_to(outside)
    assert read_file(inside / "near", inside) == b"text" == read_file(inside / "far")
    with pytest.raises(ValueError, match="outside of its folder: put a copy there"):
        read_file(inside / "far", inside)


def test_sizes_are_told_before_memory_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "memory_size", lambda: 2**30)
    check_fits(2**30, "this")
    with pytest.raises(ValueError, match=r"^this would take 1\.5 GiB of memory, but "):
        check_fits(3 * 2**29, "this")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(ValueError, match=r"sparse would take 1\.0 TiB"):
        read_file(tmp_path / "sparse")


def test_memory_is_known_where_the_system_says_it() -> None:
    size = reading.memory_size()
    assert size is None or size > 2**24


def test_bytes_are_written_in_the_largest_unit() -> None:
    assert [show_bytes(n) for n in (5, 2048, 3 * 2**40)] == ["5 bytes", "2.0 KiB", "3.0 TiB"]


def test_deep_json_is_refused() -> None:
    for deep in ("[" * 100_000, '{"a":' * 100_000):
        with pytest.raises(ValueError, match="nested too deeply"):
            load_json(deep)
        with pytest.raises(ValueError, match="not JSON"):
            parse_object(deep)
