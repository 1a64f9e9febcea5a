"""Labels and domains that arrays cannot hold as they are: large whole numbers, dates, odd types."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft.data.tables import read_table
from tests.helpers.errors import refused
from tests.helpers.tables import write_columns

BEYOND = [[10**30, 10**30 + 1], [-(2**63), 2**64 - 1], [2**64 - 1, -1], [2**63, 2**63 + 1]]


def labels_of(path: Path, labels: list[int]) -> list[Any]:
    columns = {"x": [1.5, 2.5], "label": labels, "domain": ["a", "b"]}
    table = read_table(write_columns(path, columns))
    assert table.y is not None
    return table.y.tolist()


@pytest.mark.parametrize("labels", BEYOND)
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_whole_numbers_of_more_than_64_bits_are_texts(
    tmp_path: Path, suffix: str, labels: list[int]
) -> None:
    assert labels_of(tmp_path / f"d.{suffix}", labels) == [str(label) for label in labels]
    limits = [2**63 - 1, -(2**63)]
    assert labels_of(tmp_path / f"d.{suffix}", limits) == limits


def save(path: Path, domain: Any) -> Path:
    np.savez(path, X=np.ones((2, 3)), label=[0, 1], domain=domain)
    return path


def test_dates_in_arrays_are_texts(tmp_path: Path) -> None:
    days = np.array(["2024-01-01", "2024-01-02"], "datetime64[D]")
    table = read_table(save(tmp_path / "d.npz", days))
    assert table.domain is not None and table.domain.tolist() == ["2024-01-01", "2024-01-02"]
    hours = np.array(["2024-01-01T05:00", "2024-01-01T05:00:00.5"], "datetime64[ns]")
    table = read_table(save(tmp_path / "d.npz", hours))
    expected = ["2024-01-01 05:00:00", "2024-01-01 05:00:00.500000"]  # as of Parquet files
    assert table.domain is not None and table.domain.tolist() == expected
    far = np.array(["20240-01-01", "2024-01-01"], "datetime64[D]")
    table = read_table(save(tmp_path / "d.npz", far))
    assert table.domain is not None and table.domain.tolist() == ["20240-01-01", "2024-01-01"]
    days[1] = "NaT"
    with refused("row 2 of .* has no domain", path=tmp_path / "d.npz"):
        read_table(save(tmp_path / "d.npz", days))


@pytest.mark.parametrize("kind", ["V4", "complex128", "m8[s]"])
def test_arrays_of_other_types_are_refused(tmp_path: Path, kind: str) -> None:
    path = save(tmp_path / "d.npz", np.zeros(2, kind))
    with refused("array 'domain' of .* has type .*: save plain numbers or strings", path=path):
        read_table(path)
