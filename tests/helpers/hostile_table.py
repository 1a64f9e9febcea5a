"""Folders of results to write reports of, made by the commands themselves."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from tests.helpers.problems import make_problem

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    '"><b onmouseover=alert(3)>{{ 7 * 7 }}</b>',
)


def write_hostile_table(path: Path) -> None:
    """A table of embeddings whose classes, domains and features have names that attack a page."""
    problem = make_problem(seed=1, n=240, classes=3, sources=3)
    domains = dict(zip(np.unique(problem.domain).tolist(), HOSTILE, strict=True))
    names = ["label", "domain", *(f"<i>{i}</i>" for i in range(problem.X.shape[1]))]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for x, y, domain in zip(problem.X, problem.y, problem.domain, strict=True):
            writer.writerow([HOSTILE[y], domains[str(domain)], *x.round(4)])
