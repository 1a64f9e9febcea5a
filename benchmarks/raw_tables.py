"""Tables with a natural domain column, as found, made into features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from common import SHARED
from numpy.typing import NDArray

from regraft.data.labelled import LabelledTable


class Columns(NamedTuple):
    """What the columns of a table are for; the others are features."""

    label: str
    domain: str
    dropped: tuple[str, ...] = ()


TABLES = {
    "heart": Columns("HeartDisease", "dataset", ("id",)),
    "adult": Columns("income", "race"),
    "bank": Columns("y", "month", ("duration",)),  # the call's length is known only afterwards
}


def read_raw_table(name: str) -> LabelledTable:
    """Read a table of ``SHARED/tables``."""
    frame = pd.read_csv(SHARED / "tables" / f"{name}.csv.gz")
    columns = TABLES[name]
    y = frame[columns.label].to_numpy()
    features = frame.drop(columns=[columns.label, columns.domain, *columns.dropped])
    return LabelledTable(
        X=to_features(features),
        y=(y > 0).astype(int) if name == "heart" else y.astype(str),
        domain=frame[columns.domain].to_numpy(dtype=str),
    )


def to_features(frame: pd.DataFrame) -> NDArray[np.float64]:
    """Standardize numbers, their gaps filled with the median and flagged, and a column a category.

    A missing category has no column. All domains are treated at once: neither labels nor domain
    names enter.
    """
    numbers = frame.select_dtypes("number")
    flags = numbers.isna().loc[:, numbers.isna().any()]
    categories = pd.get_dummies(frame.drop(columns=numbers.columns).astype("category"))
    parts = (numbers.fillna(numbers.median()), flags, categories)
    X = np.hstack([part.to_numpy(dtype=np.float64) for part in parts])
    return np.asarray((X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9))
