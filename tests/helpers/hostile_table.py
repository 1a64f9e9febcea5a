"""Folders of results to write reports of, made by the commands themselves."""

from pathlib import Path

import numpy as np

from tests.helpers.problems import make_problem
from tests.helpers.tables import write_columns

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    '"><b onmouseover=alert(3)>{{ 7 * 7 }}</b>',
)


def write_hostile_table(path: Path) -> None:
    """A table of embeddings whose classes, domains and features have names that attack a page."""
    problem = make_problem(seed=1, n=240, classes=3, sources=3)
    domains = dict(zip(np.unique(problem.domain).tolist(), HOSTILE, strict=True))
    features = {f"<i>{i}</i>": column for i, column in enumerate(problem.X.round(4).T)}
    labels, places = [HOSTILE[y] for y in problem.y], [domains[name] for name in problem.domain]
    write_columns(path, {"label": labels, "domain": places, **features})
