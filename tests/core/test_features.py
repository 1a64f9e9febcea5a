"""Features of which few entries hide all others are told, and odd but honest ones are not."""

import warnings

import numpy as np
import pytest
from numpy.typing import NDArray

from regraft.core.features import check_spread
from regraft.estimators.table_features import TableFeatures

RNG = np.random.default_rng(0)
OUTLIERS = "over 10,000 times farther out"


NAMES = ("age", "income", "size")


def _said(X: NDArray[np.float64], names: tuple[str, ...] = NAMES) -> str:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        check_spread(X, names)
    return " ".join(str(each.message) for each in told if OUTLIERS in str(each.message))


@pytest.mark.parametrize("rows", [20, 600, 30_000])
@pytest.mark.parametrize("value", [1e6, -1e50])
def test_an_entry_beside_which_others_look_alike_is_told(rows: int, value: float) -> None:
    X = RNG.standard_normal((rows, 3))
    assert _said(X) == ""
    X[rows // 3, 1] = value
    assert _said(X).startswith("column 'income' has entries over")
    assert _said(X, ()) == ""
    X[2, 2] = 999_999.0
    assert _said(X).startswith("columns 'income', 'size' have entries over")


def test_the_column_of_a_table_is_named_once() -> None:
    table = {name: RNG.standard_normal(90) for name in NAMES}
    table["income"][7], table["size"][3] = 1e9, np.nan
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        features = TableFeatures().fit_transform(table)
        check_spread(features)
    assert [str(each.message).split(" has ")[0] for each in told] == ["column 'income'"]


def test_rows_that_repeat_others_are_told_unless_they_are_alike_by_nature() -> None:
    X = RNG.standard_normal((200, 3))
    with pytest.warns(UserWarning, match="^200 of 400 rows repeat another row: tests and"):
        check_spread(np.tile(X, (2, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_spread(np.vstack([X, X[:9]]))
        check_spread(RNG.integers(3, size=(400, 3)).astype(float))


@pytest.mark.parametrize(
    "X",
    [
        RNG.lognormal(0, 2, (20_000, 3)),
        RNG.standard_t(2, (5_000, 3)),
        (RNG.random((5_000, 3)) < 0.001).astype(float),
        RNG.poisson(0.02, (2_000, 3)).astype(float),
        np.repeat([[0.0, 1e9]], [15, 5], axis=1).T + RNG.standard_normal((20, 3)),
    ],
    ids=["money", "heavy tails", "rare categories", "counts", "two modes"],
)
def test_odd_but_honest_features_are_not(X: NDArray[np.float64]) -> None:
    assert _said(X) == ""
