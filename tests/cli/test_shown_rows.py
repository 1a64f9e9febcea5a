"""Rows of tables, told by their columns."""

import numpy as np

from regraft.cli.shown_rows import tell_columns
from regraft.data.tables import FeatureTable
from regraft.estimators.abduction_ends import ShownRow

CELLS = {
    "age": np.array([40.0, 99.5]),
    "pain = type": np.array(["none", "typical"], dtype=object),
    "blood": np.array([None, 3.0], dtype=object),
    "calm": np.array([1.0, 1.0]),
}
NAMES = ("age", "pain = type=none", "pain = type=typical", "blood", "blood is missing")
USUAL = np.array([[-1.0, 0, 0, -1, 0], [1.0, 1, 0, 1, 0]])
X = np.array([[0.1, 1.0, 0.0, 0.0, 9.0], [30.0, 0.0, 5.0, 0.2, 0.0]])


def test_a_row_tells_the_cells_in_which_it_is_furthest_from_the_sources() -> None:
    table = FeatureTable(CELLS, None, None, features=tuple(CELLS))
    rows = (ShownRow(2, ""), ShownRow(1, ""))
    far, gap = tell_columns(rows, table, X, USUAL, NAMES, at=(1, 0))
    assert far.text == "row 2: age 99.5, pain = type typical, blood 3"
    assert gap.text.startswith("row 1: blood is missing, pain = type none")
    assert "calm" not in far.text + gap.text  # which the model does not read


def test_columns_without_names_leave_rows_as_they_are() -> None:
    rows = (ShownRow(1, ""),)
    assert tell_columns(rows, FeatureTable(X, None, None), X, USUAL, (), at=(0,)) == rows
