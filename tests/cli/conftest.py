"""Tables and a fitted model that several tests of commands read."""

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.commands import Once, call
from tests.helpers.problems import Problem, write_table


@pytest.fixture(scope="session")
def folder(once: Once, problem: Problem) -> Path:
    """A table in every format and a model fitted on it."""

    def make(folder: Path) -> None:
        folder.mkdir()
        for suffix in ("csv", "parquet"):
            write_table(folder / f"data.{suffix}", problem)
        np.savez(folder / "data.npz", X=problem.X, y=problem.y, sample_domain=problem.domain)
        call(
            [
                "fit",
                folder / "data.csv",
                "--out",
                folder / "fit",
                "--family",
                "hull",
                "--radius",
                "2",
            ]
        )

    return once("cli", make)
