"""What a server says about rows that it answers, but that are not as those of the fit."""

import json
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from regraft import ERMClassifier, TableFeatures
from regraft.cli.server_input import read_query
from regraft.estimators.column_roles import ColumnRoles
from regraft.estimators.exporting_document import describe_model
from regraft.estimators.scoring import Scorer


@pytest.fixture(scope="module")
def scorer() -> Scorer:
    """A model of a table with a column of two values, and one of which two values are kept."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=80)
    table = {
        "age": 50 + 9 * y + rng.standard_normal(80),
        "stage": np.where(rng.random(80) < 0.2 + 0.5 * y, "late", "early"),
        "town": np.array(["a", "b", "a", "b", "c"])[np.arange(80) % 5],
        "units": np.full(80, "mg"),
    }
    with pytest.warns(UserWarning, match="'units' is constant"):
        features = TableFeatures(max_categories=2).fit(table)
    head = ERMClassifier().fit(features.transform(table), y, np.arange(80) % 2)
    head.column_roles_ = ColumnRoles("ill", "place", "patient")
    return Scorer(describe_model(make_pipeline(features, head)))


@pytest.mark.parametrize(
    ("change", "warned"),
    [
        ({}, []),
        ({"town": "d"}, []),  # rare towns are no categories of their own
        ({"units": "mg", "ill": 1, "place": "north", "patient": 7}, []),
        ({"stage": "final"}, ["'stage' (1 row)"]),
        ({"stage": None, "weight": 80}, ["are not read: 'weight'", "'stage' (1 row)"]),
    ],
)
def test_rows_are_warned_of(scorer: Scorer, change: dict[str, Any], warned: list[str]) -> None:
    row = {"age": 50, "stage": "late", "town": "a"}
    query = read_query(json.dumps([row, row | change]).encode(), False, scorer, 9)
    assert len(query.warnings) == len(warned)
    assert all(part in said for part, said in zip(warned, query.warnings, strict=True))
