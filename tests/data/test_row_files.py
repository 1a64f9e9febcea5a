"""Large tables read in ranges: every row once, in order, as the tables of one file are read."""

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft.data.banks import write_bank
from regraft.data.columns import ColumnChoice, TableError
from regraft.data.labelled import read_labelled
from regraft.data.row_engines import LocalShard, open_large_table
from regraft.data.row_files import RowFiles, join_blocks, open_row_files
from tests.helpers.problems import make_problem

pa = pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")

PROBLEM = make_problem(n=150)
N = len(PROBLEM.y)


def _columns() -> dict[str, Any]:
    kinds = np.array(["red", "green", None], object)[np.arange(N) % 3]
    numbers = {f"f{j}": column for j, column in enumerate(PROBLEM.X.T)}
    return {**numbers, "kind": kinds, "label": PROBLEM.y, "domain": PROBLEM.domain}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files of several row groups, one of them empty."""
    table = pa.table(_columns())
    for i, (start, stop) in enumerate(((0, 130), (130, 130), (130, N))):
        pq.write_table(
            table.slice(start, stop - start), tmp_path / f"part{i}.parquet", row_group_size=40
        )
    return tmp_path


@pytest.fixture
def files(folder: Path) -> RowFiles:
    return open_row_files(folder, "label", "domain")


@pytest.mark.parametrize(("start", "stop"), [(0, N), (0, 1), (35, 45), (129, 131), (40, 250)])
def test_a_range_holds_its_rows_and_no_others(files: RowFiles, start: int, stop: int) -> None:
    block = join_blocks(list(files.read_features(start, stop)))
    assert not isinstance(block, np.ndarray)
    assert set(block) == set(_columns()) - {"label", "domain"}
    np.testing.assert_array_equal(block["f0"], PROBLEM.X[start:stop, 0])
    for column, expected in (("label", PROBLEM.y), ("domain", PROBLEM.domain)):
        codes, values = files.read_codes(column, start, stop)
        np.testing.assert_array_equal(np.array(values)[codes], expected[start:stop])


def test_a_small_table_is_read_as_in_memory(folder: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole.parquet"
    pq.write_table(pa.table(_columns()), whole)
    expected = read_labelled(whole)
    whole.unlink()
    large = open_large_table(
        LocalShard(open_row_files(folder, "label", "domain")), ColumnChoice(), most=10**6
    )
    assert large.is_whole and large.features == expected.features
    np.testing.assert_array_equal(large.sample.X, expected.X)
    np.testing.assert_array_equal(large.sample.y, expected.y)
    np.testing.assert_array_equal(large.sample.domain, expected.domain)
    assert large.cells == expected.count_rows()


@pytest.mark.parametrize("memory", [None, 10**9], ids=["on disk", "in memory"])
def test_features_of_all_rows_are_made_like_those_of_the_sample(
    files: RowFiles, memory: int | None
) -> None:
    engine = LocalShard(files, memory)
    large = open_large_table(engine, ColumnChoice(drop=("kind",)), most=100)
    assert not large.is_whole
    table = engine._shard._make_table(large.rows.plan)  # type: ignore[attr-defined]
    np.testing.assert_allclose(table.X[large.sample.numbers], large.sample.X, atol=1e-6)
    np.testing.assert_array_equal(np.unique(PROBLEM.domain)[table.source], PROBLEM.domain)
    np.testing.assert_array_equal(table.y, PROBLEM.y)


def test_a_bank_is_read_where_it_lies(tmp_path: Path) -> None:
    write_bank(tmp_path / "bank", PROBLEM.X.astype(np.float32), PROBLEM.y, PROBLEM.domain)
    engine = LocalShard(open_row_files(tmp_path / "bank", "label", "domain"))
    large = open_large_table(engine, ColumnChoice(), most=100)
    np.testing.assert_array_equal(
        large.sample.X, PROBLEM.X.astype(np.float32)[large.sample.numbers]
    )
    np.testing.assert_array_equal(large.sample.y, PROBLEM.y[large.sample.numbers])


def test_what_cannot_be_read_in_parts_says_so(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TableError, match="does not exist"):
        open_row_files(tmp_path / "nothing", "label", "domain")
    with pytest.raises(TableError, match=r"no label column 'cls'.*--label"):
        open_row_files(folder, "cls", "domain")
    (tmp_path / "table.csv").write_text("a,label,domain\n1,0,0\n")
    with pytest.raises(TableError, match="neither a bank nor a folder of Parquet files"):
        open_row_files(tmp_path / "table.csv", "label", "domain")
    (tmp_path / "empty" / "hospital=a").mkdir(parents=True)
    with pytest.raises(TableError, match=r"holds no files that end in .parquet.*into one folder"):
        open_row_files(tmp_path / "empty", "label", "domain")
    pq.write_table(pa.table({"x": [1.0]}), folder / "part9.parquet")
    with pytest.raises(TableError, match=r"lacks .*'label'.* and has 'x', other than"):
        open_row_files(folder, "label", "domain")
    whole = pq.read_table(min(folder.glob("*.parquet")))
    pq.write_table(whole.select(whole.column_names[::-1]), folder / "part9.parquet")
    with pytest.raises(TableError, match="has its columns in another order, other than"):
        open_row_files(folder, "label", "domain")


def test_what_is_not_read_of_a_folder_is_told(folder: Path) -> None:
    before = open_row_files(folder, "label", "domain").n_rows
    first = min(folder.glob("*.parquet"))
    first.rename(first.with_suffix(".PARQUET"))
    last = max(folder.glob("*.parquet"))
    last.rename(last.with_name(f"_{last.name}"))
    (folder / "_SUCCESS").touch()
    assert open_row_files(folder, "label", "domain").n_rows == before
    (folder / "more").mkdir()
    (folder / "notes.txt").touch()
    with pytest.warns(UserWarning, match="also holds 'more', 'notes.txt', which are not read"):
        assert open_row_files(folder, "label", "domain").n_rows == before


def test_a_full_disk_under_the_rows_is_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    large = open_large_table(
        LocalShard(open_row_files(folder, "label", "domain")), ColumnChoice(), most=50
    )
    with pytest.raises(OSError, match=r"rows of a table of [\d,]+ bytes does not fit on the disk"):
        large.rows.sum(len)


def test_missing_labels_and_targets_are_refused(tmp_path: Path) -> None:
    columns = _columns()
    columns["domain"] = np.where(np.arange(N) < 5, -1, 1)
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(TableError, match="negative number, which stands for a target"):
        open_large_table(
            LocalShard(open_row_files(tmp_path, "label", "domain")), ColumnChoice(), most=50
        )
    columns["label"] = pa.array([None, *PROBLEM.y[1:].tolist()])
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(TableError, match="has no label"):
        LocalShard(open_row_files(tmp_path, "label", "domain")).survey()
