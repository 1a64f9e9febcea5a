"""Tables as they are become the numbers that a hand-made ColumnTransformer gives."""

import copy
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from regraft import CROClassifier, TableFeatures
from regraft.data.tables import read_table
from regraft.estimators.column_kinds import parse_cell, take_rows, to_texts
from regraft.estimators.table_features import UnknownCategoryWarning, as_columns
from tests.helpers.errors import refused
from tests.helpers.mixed_table import features_of, mixed_columns
from tests.helpers.tables import write_columns

TABLE = features_of(mixed_columns())
N = len(TABLE["age"])
left_out = pytest.mark.filterwarnings("ignore:columns left out")


@left_out
def test_the_numbers_are_those_of_a_hand_made_column_transformer() -> None:
    made = TableFeatures().fit(TABLE)
    frame = pandas.DataFrame(TABLE).replace({"NA": None, "?": None})
    numbers = frame[["age", "dose"]].astype(float)
    numbers["smoker"] = frame["smoker"].map({"TRUE": 1.0, "FALSE": 0.0})
    by_hand = make_column_transformer(
        (
            make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler()),
            list(numbers),
        ),
        (OneHotEncoder(sparse_output=False), ["stage"]),
    ).fit_transform(numbers.assign(stage=frame["stage"]))
    np.testing.assert_allclose(made.transform(TABLE), by_hand, atol=1e-12)
    names = made.get_feature_names_out().tolist()
    assert names[:5] == ["age", "dose", "smoker", "dose is missing", "smoker is missing"]
    assert names[5:] == ["stage=high", "stage=low", "stage=middle"]
    assert made.columns_ == ("age", "dose", "smoker", "stage")


def test_ids_and_constant_columns_are_left_out_in_one_sentence() -> None:
    with pytest.warns(UserWarning, match="columns left out") as caught:
        made = TableFeatures().fit(TABLE)
    assert len(caught) == 1
    assert "'patient' has another text in nearly every row" in str(caught[0].message)
    assert "'units' is constant" in str(caught[0].message)
    assert set(made.left_out_) == {"patient", "units"}


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        (np.arange(40) + 7, "numbers the rows"),
        (np.random.default_rng(0).permutation(40) * 17 + 1000, "as an id has"),
        ([f"the patient of bed {i} slept well and ate his soup" for i in range(40)], "free text"),
        ([f"{i:x}" for i in range(1000, 1040)], "as an id has"),
        ([None] * 40, "is empty"),
        (["?", "NA"] * 20, "is empty"),
        ([3.5] * 40, "is constant"),
        ([f"name {i // 2}" for i in range(400)], "too many different texts"),
        ([f"{2000 + i // 28}-03-{i % 28 + 1:02} 10:00" for i in range(400)], "looks like a date"),
        ([f"{i % 28 + 1}.{i // 28 + 1}.1999" for i in range(400)], "looks like a date"),
    ],
)
def test_what_is_no_feature_is_recognized(cells: Any, reason: str) -> None:
    table = {"x": np.resize([0.5, 1.25, 3], len(cells)), "odd": cells}
    with pytest.warns(UserWarning, match=reason):
        made = TableFeatures().fit(table)
    assert made.columns_ == ("x",)


@pytest.mark.parametrize(
    "cells",
    [
        np.random.default_rng(0).standard_normal(40),
        [f"name {i % 30}" for i in range(400)],
        [*"ab"] * 20,
        [None, 1.0] * 20,
        np.arange(40) % 7,
        np.random.default_rng(0).permutation(40) * 9171,
    ],
)
def test_features_are_no_ids(cells: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert TableFeatures().fit({"x": cells}).columns_ == ("x",)


def test_columns_are_chosen_by_name() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = TableFeatures(features=["patient", "age"]).fit(TABLE)
        assert made.columns_ == ("age", "patient") and made.transform(TABLE).shape == (N, 51)
        made = TableFeatures(drop=["patient", "units", "dose", "stage"]).fit(TABLE)
        assert made.columns_ == ("age", "smoker")
        counts = TableFeatures(categorical=["n"]).fit({"n": [1, 2.0, "3", "3.0", None, "02"]})
    assert counts.get_feature_names_out().tolist() == ["n=1", "n=2", "n=3", "n is missing"]
    for option in ("features", "drop", "categorical"):
        with refused(f"{option} names 'agee', 'b', which the table does not have"):
            TableFeatures(**{option: ["agee", "b"]}).fit(TABLE)


@left_out
def test_only_frequent_categories_have_a_feature() -> None:
    cells = [f"c{i % 3}" for i in range(90)] + [f"rare {i // 2}" for i in range(20)]
    made = TableFeatures(max_categories=3).fit({"c": cells})
    assert made.known_categories() == {"c": ("c0", "c1", "c2")}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # rare values are no news
        assert not made.transform({"c": ["rare 1", "new"]}).any()


@left_out
def test_values_that_fit_has_not_seen_are_said_once() -> None:
    made = TableFeatures().fit(TABLE)
    table = TABLE | {"stage": np.where(np.arange(N) < 7, "final", TABLE["stage"])}
    with pytest.warns(UnknownCategoryWarning, match=r"'stage' \(7 rows\)") as caught:
        rows = made.transform(table)
    assert len(caught) == 1 and not rows[:7, 5:].any() and (rows[7:, 5:].sum(axis=1) == 1).all()


def test_the_warning_survives_a_way_between_processes() -> None:
    warning = UnknownCategoryWarning(Counter(stage=7), "the sample")
    for copied in (copy.deepcopy(warning), type(warning)(*warning.args)):
        assert str(copied) == str(warning) and copied.counts == {"stage": 7}
    assert "did not occur in the sample" in str(warning)


@left_out
def test_all_problems_are_told_at_once() -> None:
    bad = {name: cells.copy() for name, cells in TABLE.items()}
    bad["age"][3], bad["age"][5], bad["dose"][8] = "old", "older", "inf"
    bad["smoker"] = [["list"]] * N
    with refused("the table has 3 problems") as caught:
        TableFeatures().fit(bad)
    message = str(caught.value)
    assert "'age' holds numbers, but not in row 4 ('old'), row 6 ('older')" in message
    assert "'dose' holds an infinite number in row 9" in message
    assert "'smoker' holds a list" in message
    made = TableFeatures().fit(TABLE)
    with refused("the table has 3 problems"):
        made.transform(bad)
    for cell, told in (
        ({"a": 1}, "'stage' holds a dict in a cell: repair or empty the cell"),
        (b"\xff", "'stage' holds a bytes in a cell: repair or empty the cell"),
    ):
        with refused(told):
            made.transform({**TABLE, "stage": [cell, *TABLE["stage"][1:]]})
    with refused("'dose' holds a number beyond 1e\\+100 in row 2 .* repair it, or leave it empty"):
        TableFeatures().fit({**TABLE, "dose": [1.0, 1e120, *TABLE["dose"][2:]]})
    with refused("the data lacks 'age', 'stage'"):
        made.transform({name: TABLE[name] for name in ("dose", "smoker")})
    with refused("no column of the table is left"):
        TableFeatures().fit({"a": [1, 1], "b": ["x", "x"]})
    with refused("X has shape"):
        TableFeatures().fit([1, 2])
    with refused("rows: pass one or more"):
        TableFeatures().fit({"a": [1, 2], "b": [1]})
    with refused("two columns of one name"):
        TableFeatures().fit(pandas.DataFrame([[1, 2]], columns=["a", "a"]))


@left_out
def test_every_form_of_a_table_gives_the_same_numbers() -> None:
    made = TableFeatures().fit(TABLE)
    expected = made.transform(TABLE)
    text = pandas.DataFrame(TABLE)
    typed = text.assign(
        age=text["age"].astype("float32").astype(float).round(1),
        dose=pandas.to_numeric(text["dose"], errors="coerce"),
        smoker=text["smoker"].map({"TRUE": True, "FALSE": False}).astype("boolean"),
        stage=text["stage"].astype("category"),
    )
    array = text.to_numpy()
    for other in (text, typed, text[text.columns[::-1]].assign(more=1), array):
        np.testing.assert_array_equal(made.transform(other), expected)
    for other in (text, typed, array):
        np.testing.assert_array_equal(TableFeatures().fit_transform(other), expected)
    with refused("X has 2 feature"):
        made.transform(array[:, :2])


@left_out
def test_rows_of_targets_are_not_learnt_from() -> None:
    domain = np.repeat([0, 1, -1], N // 3)
    table = TABLE | {"age": np.where(domain < 0, "1000", TABLE["age"])}
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(TableFeatures(), CROClassifier())
        pipeline.fit(table, mixed_columns()["ill"], sample_domain=domain)
    sources = TableFeatures().fit(take_rows(as_columns(TABLE), domain >= 0))
    np.testing.assert_array_equal(pipeline[0].transform(TABLE), sources.transform(TABLE))


@left_out
def test_it_is_an_estimator() -> None:
    made = clone(TableFeatures(drop=["age"], max_categories=9))
    assert made.get_params()["max_categories"] == 9
    frame = made.set_output(transform="pandas").fit_transform(pandas.DataFrame(TABLE))
    assert "stage=low" in frame.columns and len(frame) == N


@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()))
def test_a_cell_means_the_same_in_every_format(cell: Any) -> None:
    """A CSV file knows texts only: what is written there is read as the cell was."""
    assert np.array_equal(
        to_texts(np.array([cell], object)),
        to_texts(np.array(["" if cell is None else str(cell)], object)),
    )


@pytest.mark.parametrize("text", ["", " ", "NA", "n/a", "NaN", "nan", "null", "None", "?", "<NA>"])
def test_missing_texts(text: str) -> None:
    assert parse_cell(text) is None


@pytest.mark.parametrize("text", ["20_30", "1_000", "١٢", "1e1_0", "0x1F"])
def test_what_only_pythons_programs_take_for_numbers_are_texts(text: str, tmp_path: Path) -> None:
    assert parse_cell(text) == text
    cells = {"x": [1.5, 2.5, 3.5, text] * 20, "label": [0, 1] * 40, "domain": ["a"] * 80}
    table = read_table(write_columns(tmp_path / "data.csv", cells))
    assert isinstance(table.X, dict) and table.X["x"][3] == text


def test_a_hundred_columns_are_not_quoted_whole() -> None:
    table = {f"column{i}": ["same"] * 40 for i in range(100)} | {"x": list(range(0, 80, 2))}
    with pytest.warns(UserWarning, match="and 92 more are constant") as caught:
        features = TableFeatures(features=[*table]).fit(table)
    assert len(str(caught[0].message)) < 300
    table |= {f"column{i}": [[1]] * 40 for i in range(100)}
    with pytest.raises(ValueError, match=r"has 100 problems: \(1\) .*; and 81 more\.$"):
        TableFeatures().fit(table)
    with pytest.raises(ValueError, match="the data lacks 'x'"):
        features.transform({"y": [1]})
