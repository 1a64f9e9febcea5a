"""Tables and a fitted model that several tests of commands read."""

from pathlib import Path

import numpy as np
import pytest

from regraft.data.examples import make_confounded_domains
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


@pytest.fixture(scope="session")
def newcomer(once: Once) -> Path:
    """Models of two families, and tables of a domain that they were not fitted on."""

    def make(folder: Path) -> None:
        folder.mkdir()
        data = make_confounded_domains(250, strengths=(0.9, 0.55), n_features=8, random_state=1)
        np.savez(folder / "sources.npz", X=data.X, y=data.y, domain=data.sample_domain)
        for family in ("latent", "hull"):
            options = ("--family", family, "--quiet", "--out", folder / family)
            call(["fit", folder / "sources.npz", *options])
        X, y = data.X_target, data.y_target
        np.savez(folder / "rows.npz", X=X)
        np.savez(folder / "labelled.npz", X=X, y=y)
        np.savez(folder / "some.npz", X=X, y=np.where(np.arange(len(y)) < 12, y, np.nan))
        np.savez(folder / "three.npz", X=X[:3])
        np.savez(folder / "one_class.npz", X=X, y=np.ones_like(y))
        np.savez(folder / "strange.npz", X=X, y=y + 5)
        np.savez(folder / "narrow.npz", X=X[:, :5])
        np.savez(folder / "gap.npz", X=np.where(X > 4, np.nan, X))
        np.savez(folder / "source.npz", X=data.X[data.sample_domain == "source 1"])

    return once("newcomer", make)
