"""Sizes that files declare are checked before their content is read."""

import gzip
import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from regraft.data import table_rows
from regraft.data.banks import open_bank, write_bank
from regraft.data.probabilities import read_probabilities
from regraft.data.tables import read_table
from regraft.estimators.saving import load
from tests.helpers.commands import Run


def write_npz(path: Path, **headers: tuple[int, ...]) -> Path:
    """Write arrays that declare these shapes of float64, and hold ten numbers each."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, shape in headers.items():
            text = io.BytesIO()
            described = {"descr": "<f8", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(text, described)
            archive.writestr(f"{name}.npy", text.getvalue() + np.zeros(10).tobytes())
    return path


def test_arrays_have_the_length_that_they_declare(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "d.npz", X=(10**9, 10**3), label=(10,), domain=(10,))
    with pytest.raises(ValueError, match="declares 8000000000000 bytes but has 80: write the file"):
        read_table(path)
    path = write_npz(tmp_path / "p.npz", probabilities=(10**9, 2))
    with pytest.raises(ValueError, match=r"'probabilities' of .* declares 16000000000 bytes"):
        read_probabilities(path, np.arange(2))


def test_arrays_have_rows_alike_before_they_are_read(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "d.npz", X=(5, 2), y=(10,), domain=(10,))
    with pytest.raises(ValueError, match=r"5 rows of features but a label array of shape \(10,\)"):
        read_table(path)


def test_archives_with_a_password_are_refused(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "d.npz", X=(5, 2))
    content = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + place] |= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"damaged or not a .npz file"):
        read_table(path)


def test_a_small_parquet_file_may_declare_any_number_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow, parquet = (pytest.importorskip(f"pyarrow{part}") for part in ("", ".parquet"))
    path = tmp_path / "d.parquet"
    parquet.write_table(pyarrow.table({"x": np.zeros(200_000), "label": [0] * 200_000}), path)
    assert path.stat().st_size < 10_000
    monkeypatch.setattr("regraft.support.reading.memory_size", lambda: 2**20)
    with pytest.raises(ValueError, match=r"the table .* would take 3\.1 MiB of memory"):
        read_table(path, need_domain=False)


def test_a_gzipped_table_that_unpacks_to_far_more_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_rows, "_FREE_BYTES", 2**20)
    path = tmp_path / "d.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"x,label,domain\n" + b"0,0,0\n" * 2**20)
    with pytest.raises(ValueError, match="unpacks to more, than any table does"):
        read_table(path)
    monkeypatch.setattr(table_rows, "_LONGEST_LINE", 2**10)
    (tmp_path / "d.csv").write_bytes(b"x" * 2**11)
    with pytest.raises(ValueError, match=r"line 1 of .* is longer"):
        read_table(tmp_path / "d.csv")


@pytest.mark.parametrize("name", ["d.csv", "d.npz", "d.parquet", "d.jsonl.gz"])
def test_pipes_are_no_tables(tmp_path: Path, name: str, run: Run) -> None:
    os.mkfifo(tmp_path / name)
    ran = run("fit", tmp_path / name, "--out", tmp_path / "out", "--quiet")
    assert ran.code == 2 and ran.err.count("\n") == 1
    assert "is a pipe, a device or a socket: pass a regular file." in ran.err


def test_pipes_are_not_written_over(tmp_path: Path, run: Run) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for line in (("report", tmp_path, "--out", pipe), ("fit", "none.csv", "--out", pipe)):
        ran = run(*line)
        assert ran.code == 2 and "is a pipe, a device or a socket" in ran.err
    assert pipe.is_fifo()


def test_links_out_of_a_bank_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "bank"
    write_bank(folder, np.eye(4), list("abab"), list("ccdd"))
    for name in ("bank.json", "features.safetensors", "inputs.jsonl"):
        moved = (folder / name).rename(tmp_path / name)
        (folder / name).symlink_to(moved)
        with pytest.raises(ValueError, match="outside of its folder"):
            open_bank(folder)
        moved.replace(folder / name)
    assert len(open_bank(folder).X) == 4


def test_deep_json_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text("[" * 100_000)
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ValueError, match=r"model.json is damaged"):
        load(tmp_path)
