"""A small table as people have them: texts, gaps, ids, constants, and a label that they tell."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.helpers.problems import make_problem


def mixed_columns(seed: int = 0, n: int = 150) -> dict[str, NDArray[Any]]:
    """Two clinics of ``n`` rows each, in columns as a CSV file has them: all of them texts."""
    rng = np.random.default_rng(seed)
    problem = make_problem(seed, n)
    X, rows = problem.X, len(problem.y)
    level = np.digitize(X[:, 2], [-1.0, 1.0])
    columns: dict[str, Any] = {
        "patient": [f"P{i:05d}" for i in rng.permutation(rows)],
        "age": [f"{50 + 10 * x:.1f}" for x in X[:, 0]],
        "dose": ["NA" if rng.random() < 0.1 else f"{x:.3f}" for x in X[:, 1]],
        "stage": [("low", "middle", "high")[k] for k in level],
        "smoker": ["?" if rng.random() < 0.05 else ("TRUE", "FALSE")[int(x > 0)] for x in X[:, 3]],
        "units": ["mg"] * rows,
        "place": [name.replace("source", "clinic") for name in problem.domain],
        "ill": [("no", "yes")[y] for y in problem.y],
    }
    return {name: np.array(cells, object) for name, cells in columns.items()}


def features_of(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The columns that are neither the label nor the domain."""
    return {name: cells for name, cells in columns.items() if name not in ("place", "ill")}
