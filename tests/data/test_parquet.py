"""Parquet files: read without threads, numbers and dates of every type, declared sizes."""

import datetime
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from regraft.data.columns import Role
from regraft.data.row_files import open_row_files
from regraft.data.table_rows import read_rows
from regraft.data.tables import TableError, read_table
from tests.helpers.commands import run_apart
from tests.helpers.errors import refused

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

COUNT_THREADS = """
import os, sys
from pathlib import Path
from regraft.data.columns import Role
from regraft.data.row_files import open_row_files
from regraft.data.table_columns import read_columns
from regraft.data.table_rows import read_rows
import pyarrow.parquet
before = len(os.listdir("/proc/self/task"))
read_columns(Path(sys.argv[1]))
list(read_rows(Path(sys.argv[1]), [Role("label", "label")]))
print(len(os.listdir("/proc/self/task")) - before)
"""


def write(path: Path, **columns: object) -> Path:
    parquet.write_table(pyarrow.table(columns), path)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_reading_starts_no_threads(tmp_path: Path) -> None:
    # Threads of pyarrow beside torch aborted processes that ended soon after.
    columns = {f"f{i}": np.arange(500) / 7 for i in range(8)}
    path = write(tmp_path / "d.parquet", **columns, label=["a", "b"] * 250)
    ran = run_apart(path, code=COUNT_THREADS)
    assert (ran.code, ran.out) == (0, "0\n"), ran.err


def test_labels_may_be_decimals_and_domains_dates(tmp_path: Path) -> None:
    days = [datetime.date(2024, 1, 1 + i // 2) for i in range(4)]
    cells = [Decimal("1.5"), Decimal("2.0"), None, Decimal("-3")]
    labels = [Decimal(i % 2) for i in range(4)]
    path = write(tmp_path / "d.parquet", x=cells, label=labels, domain=days)
    table = read_table(path)
    assert isinstance(table.X, dict) and table.y is not None and table.domain is not None
    np.testing.assert_array_equal(table.X["x"], [1.5, 2, np.nan, -3])
    assert table.y.dtype.kind == "i" and table.y.tolist() == [0, 1, 0, 1]
    assert table.domain.tolist() == ["2024-01-01"] * 2 + ["2024-01-02"] * 2
    streamed = [row.cells[0] for row in read_rows(path, [Role("label", "label")])]
    assert streamed == [0, 1, 0, 1]


FAR = {
    "microseconds": (2**62, pyarrow.timestamp("us")),
    "days": (2**30, pyarrow.date32()),
    "zone": (0, pyarrow.timestamp("us", tz="No/Where")),
}


@pytest.mark.parametrize("name", FAR)
def test_times_that_python_does_not_have_are_refused(tmp_path: Path, name: str) -> None:
    number, kind = FAR[name]
    days = pyarrow.array([number, -number] * 2, kind)
    path = write(tmp_path / "d.parquet", x=[1.0, 2.0] * 2, label=[0, 1] * 2, domain=days)
    with refused("a column of the type .* cannot be read .*: write its cells as numbers or texts"):
        read_table(path)
    with refused("cannot be read"):
        list(read_rows(path, [Role("domain", "domain")]))


def test_numbers_of_more_than_64_bits_are_texts(tmp_path: Path) -> None:
    cells = [Decimal(10**30 + i % 2) for i in range(4)]
    path = write(tmp_path / "d.parquet", x=[1.0, 2.0] * 2, label=cells, domain=["a", "b"] * 2)
    table = read_table(path)
    assert table.y is not None and set(table.y.tolist()) == {str(10**30), str(10**30 + 1)}


def test_bytes_are_texts_where_they_are_utf8(tmp_path: Path) -> None:
    columns = {"x": [1.0, 2.0], "label": [b"yes", "né".encode()], "domain": ["a", "b"]}
    table = read_table(write(tmp_path / "d.parquet", **columns))
    assert table.y is not None and table.y.tolist() == ["yes", "né"]
    codes, values = open_row_files(tmp_path, "label", "domain").read_codes("label", 0, 2)
    assert [values[code] for code in codes] == ["yes", "né"]


@pytest.mark.parametrize("column", ["label", "domain"])
def test_bytes_that_are_no_text_are_refused(tmp_path: Path, column: str) -> None:
    columns = {"x": [1.0, 2.0], "label": ["y", "n"], "domain": ["a", "b"]} | {
        column: [b"a", b"\xff"]
    }
    path = write(tmp_path / "d.parquet", **columns)
    with refused(f"has bytes that are no text in UTF-8 for its {column}", path=path):
        read_table(path)
    with refused(f"has bytes that are no text in UTF-8 for its {column}", path=path):
        open_row_files(tmp_path, "label", "domain").read_codes(column, 0, 2)


@pytest.mark.parametrize("name", ["d.jsonl", "d.parquet"])
def test_rows_without_columns_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if path.suffix == ".jsonl":
        path.write_text("{}\n{}\n")
    else:
        parquet.write_table(pyarrow.table({"x": [1, 2]}).select([]), path)
    with pytest.raises(TableError, match=r"no rows|rows without columns"):
        read_table(path)
