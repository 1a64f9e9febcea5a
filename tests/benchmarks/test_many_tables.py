"""The benchmark of the price on many tables."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

SCRIPT = "many_tables"


def write_table(path: Path, n: int) -> None:
    random = np.random.default_rng(1)
    label = np.arange(n) % 2
    columns = {f"x{i}": random.standard_normal(n) + label for i in range(3)}
    site = np.array(["a", "b", "c"])[np.arange(n) % 3]
    pd.DataFrame({**columns, "label": label, "site": site}).to_csv(path, index=False)


def test_each_domain_of_a_table_that_serves_is_left_out_once(
    script: ModuleType,
    run_script: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    write_table(tmp_path / "good.csv", 360)
    write_table(tmp_path / "small.csv", 60)
    (tmp_path / "broken.csv").write_text("a\n1\n1,2\n")
    monkeypatch.setattr(script, "RECORDS", tmp_path / "records.jsonl")
    first = run_script(tmp_path)
    assert "| tables, domains left out | 1, 3 |" in first
    assert "| the head is not ERM's | 0 |" in first  # parts of one population
    monkeypatch.setattr(script, "leave_out", None)  # cannot be called
    assert run_script(tmp_path) == first


def test_columns_are_drawn_by_a_seed_and_serve(script: ModuleType, tmp_path: Path) -> None:
    write_table(tmp_path / "table.csv", 360)
    frame = pd.read_csv(tmp_path / "table.csv")
    assert script.choose_columns("a seed", frame) == ("label", "site")
    assert script.choose_columns("a seed", frame.drop(columns="site")) is None
