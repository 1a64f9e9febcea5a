"""Functions take tables with texts and gaps as commands do, and other people's pipelines."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from regraft import (
    CROClassifier,
    TableFeatures,
    abduct,
    audit,
    audit_groups,
    compare,
    diagnose,
    frontier,
)
from tests.helpers.mixed_table import features_of, mixed_columns
from tests.helpers.problems import make_problem

NUMBERS = "TableFeatures makes numbers of it"
pytestmark = pytest.mark.filterwarnings(
    "ignore:columns left out", "ignore:with one of two domains left out"
)


@pytest.fixture(scope="module")
def table() -> tuple[pandas.DataFrame, Any, Any]:
    """Two clinics, with texts and gaps."""
    columns = mixed_columns(n=60)
    frame = pandas.DataFrame(features_of(columns))
    frame["age"] = frame["age"].astype(float)
    return frame, columns["ill"], columns["place"]


@pytest.mark.parametrize(
    "function",
    [
        abduct,
        diagnose,
        lambda *data: frontier(*data, prior_shifts=[1]),
        lambda *data: compare(*data, radii=[]),
    ],
    ids=["abduct", "diagnose", "frontier", "compare"],
)
def test_a_raw_table_gives_what_table_features_give(
    function: Callable[..., Any], table: tuple[Any, Any, Any]
) -> None:
    frame, y, domain = table
    with pytest.warns(UserWarning, match=NUMBERS):
        found = function(frame, y, domain)
    if "Comparison" in type(found).__name__:  # fitted anew without each domain
        assert len(found.rows) > 5 and all(row.average > 0.5 for row in found.rows)
        return
    matrix = TableFeatures().fit(frame, sample_domain=domain).transform(frame)
    assert repr(found.to_dict()) == repr(function(matrix, y, domain).to_dict())  # with NaNs


@pytest.mark.filterwarnings(f"ignore:.*{NUMBERS}")
def test_what_was_found_in_a_table_is_asked_about_tables(table: tuple[Any, Any, Any]) -> None:
    frame, y, domain = table
    found = abduct(dict(frame.items()), y, domain)
    matrix = TableFeatures().fit_transform(frame)
    expected = abduct(matrix, y, domain).posterior(matrix[:9], y[:9])
    np.testing.assert_array_equal(found.posterior(frame[:9], y[:9]), expected)


def test_a_frame_of_numbers_is_taken_as_it_is(recwarn: pytest.WarningsRecorder) -> None:
    problem = make_problem(0, 60)
    frame = pandas.DataFrame(problem.X).rename(columns=str).astype(object)
    found = abduct(frame, problem.y, problem.domain)
    assert found.to_dict() == abduct(*problem.data).to_dict() and not recwarn.list


def test_other_peoples_pipelines_are_audited_on_raw_frames(table: tuple[Any, Any, Any]) -> None:
    frame, y, domain = table
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number"))
    )
    model = make_pipeline(encode, LogisticRegression()).fit(frame[["stage", "smoker"]], y)
    matrix = TableFeatures().fit(frame, sample_domain=domain).transform(frame)
    for judge, options in ((audit_groups, {}), (audit, {"radii": [0, 1]})):
        with pytest.warns(UserWarning, match=NUMBERS):
            found = judge(model, frame, y, domain, **options)
        expected = judge(model.predict_proba(frame), matrix, y, domain, **options)
        assert found.to_dict() == expected.to_dict()


def test_the_hint_of_a_head_is_a_pipeline(table: tuple[Any, Any, Any]) -> None:
    frame, y, domain = table
    hint = r"put TableFeatures\(\) before the model in a pipeline, which fits it on the model's "
    with pytest.raises(ValueError, match=rf"'dose' .*{hint}rows alone"):
        CROClassifier().fit(frame[["age", "dose"]], y, domain)
    gaps = frame[["age"]].where(frame["age"] > 50)
    with pytest.raises(ValueError, match=rf"column 'age', .*drop these rows, or {hint}"):
        CROClassifier().fit(gaps, y, domain)
    with pytest.raises(ValueError, match=r"or put SimpleImputer\(\) before the model"):
        CROClassifier().fit(gaps.to_numpy(), y, domain)
