"""Tables and a fitted model that several tests of commands read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from tests.helpers.commands import Once, call
from tests.helpers.problems import Problem, write_csv


@pytest.fixture(scope="session")
def folder(once: Once, problem: Problem) -> Path:
    """A table in every format and a model fitted on it."""

    def make(folder: Path) -> None:
        folder.mkdir()
        write_csv(folder / "data.csv", problem)
        np.savez(folder / "data.npz", X=problem.X, y=problem.y, sample_domain=problem.domain)
        columns = {f"f{i}": column for i, column in enumerate(problem.X.T)}
        table = pyarrow.table({**columns, "label": problem.y, "domain": problem.domain})
        pyarrow.parquet.write_table(table, folder / "data.parquet")
        call(["fit", folder / "data.csv", "--out", folder / "fit", "--radius", "2"])

    return once("cli", make)
