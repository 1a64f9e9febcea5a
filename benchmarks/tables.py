"""Raw tables: the commands' preprocessing against a ColumnTransformer made by hand, same head.

python benchmarks/tables.py [NAME ...] [--rows N]

Each domain is left out in turn; both are fitted on the others only. Label of heart: > 0 is sick.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import pandas as pd
from common import SHARED, percent, table
from raw_tables import TABLES
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from regraft import CROClassifier, ERMClassifier, TableFeatures


def by_hand() -> Any:
    """What a careful person writes for such a table."""
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    categories = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="missing"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    return make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (categories, make_column_selector(dtype_exclude="number")),
        sparse_threshold=0,
    )


def read(name: str, rows: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    frame = pd.read_csv(SHARED / "tables" / f"{name}.csv.gz")
    columns = TABLES[name]
    frame = frame.sample(min(rows, len(frame)), random_state=0).sort_index()
    y = frame[columns.label].to_numpy()
    domain = frame[columns.domain].to_numpy(dtype=str)
    features = frame.drop(columns=[columns.label, columns.domain, *columns.dropped])
    return features, (y > 0).astype(int) if name == "heart" else y.astype(str), domain


def accuracy(before: Any, head: Any, seen: Any, unseen: Any) -> float:
    model = Pipeline([("before", before), ("head", head)])
    model.fit(seen[0], seen[1], head__sample_domain=seen[2])
    return float(model.score(unseen[0], unseen[1]))


def measure(name: str, rows: int) -> list[list[str]]:
    X, y, domain = read(name, rows)
    plain = X.astype({column: object for column in X.select_dtypes(exclude="number")})
    plain = plain.where(plain.notna(), np.nan)
    for column in plain.select_dtypes(object):
        if set(plain[column].dropna()) <= {True, False}:
            plain[column] = plain[column].astype(float)
    lines, gaps = [], {"ERM": [], "CRO": []}
    for target in np.unique(domain).tolist():
        out = domain == target
        cells = []
        for kind, head in (("ERM", ERMClassifier()), ("CRO", CROClassifier())):
            ours, hand = (
                accuracy(before, head, (t[~out], y[~out], domain[~out]), (t[out], y[out]))
                for before, t in ((TableFeatures(), X), (by_hand(), plain))
            )
            gaps[kind].append(ours - hand)
            cells += [percent(ours), percent(hand)]
        lines.append([name, target, f"{int(out.sum()):,}", *cells])
    mean = {kind: f"{100 * np.mean(each):+.2f}" for kind, each in gaps.items()}
    lines.append([name, "mean difference", "", mean["ERM"], "", mean["CRO"], ""])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(TABLES))
    parser.add_argument("--rows", type=int, default=4000, help="of each table, drawn at random")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [line for name in arguments.names for line in measure(name, arguments.rows)]
    heads = [f"{kind}, {how}" for kind in ("ERM", "CRO") for how in ("TableFeatures", "by hand")]
    print(table(["table", "left out", "rows", *heads], lines))


if __name__ == "__main__":
    main()
