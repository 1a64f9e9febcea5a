"""What all linear heads share: shapes, sparse rows, and sentences about columns."""

import warnings

import numpy as np
import pandas
import pytest
from scipy.sparse import csr_array, csr_matrix

from regraft import CROClassifier, ERMClassifier
from tests.helpers.errors import refused
from tests.helpers.problems import Problem


def test_two_classes_have_one_row_of_weights(problem: Problem) -> None:
    model = ERMClassifier().fit(*problem.data)
    assert model.coef_.shape == (1, problem.X.shape[1]) and model.intercept_.shape == (1,)
    logits = problem.X @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(problem.X), logits, atol=1e-9)
    p = model.predict_proba(problem.X)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(problem.X)), p, atol=1e-12)


@pytest.mark.parametrize("kind", ["Int64", "int64[pyarrow]"])
def test_large_whole_numbers_of_pandas_stay_what_they_are(problem: Problem, kind: str) -> None:
    if "pyarrow" in kind:
        pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    labels = 2**53 + problem.y  # which floats cannot tell apart
    expected = ERMClassifier().fit(problem.X, labels, problem.domain)
    model = ERMClassifier().fit(problem.X, pandas.array(labels, dtype=kind), problem.domain)
    assert model.classes_.tolist() == expected.classes_.tolist()
    assert model.classes_.dtype == np.int64
    assert np.array_equal(model.coef_, expected.coef_)


def test_sparse_rows_are_as_good_as_dense_ones(problem: Problem) -> None:
    dense = np.where(np.abs(problem.X) > 0.5, problem.X, 0.0)
    for kind in (csr_array, csr_matrix):
        model = CROClassifier().fit(kind(dense), problem.y, problem.domain)
        expected = CROClassifier().fit(dense, problem.y, problem.domain)
        assert np.array_equal(model.coef_, expected.coef_)
        assert np.allclose(model.predict_proba(kind(dense)), expected.predict_proba(dense))


def test_sparse_rows_that_no_memory_holds_are_refused() -> None:
    X = csr_array((40, 60_000), dtype=np.float64)
    with refused("reduce its 60000 features first"):
        ERMClassifier().fit(X, np.arange(40) % 2, np.arange(40) // 20)


@pytest.fixture
def frame(problem: Problem) -> pandas.DataFrame:
    return pandas.DataFrame(problem.X, columns=["age", "chol", "bp", "rate", "st", "ca"])


def test_errors_name_the_columns(problem: Problem, frame: pandas.DataFrame) -> None:
    labels = problem.y, problem.domain
    gaps = frame.copy()
    gaps.loc[3, "chol"], gaps.loc[5, "ca"] = np.nan, np.inf
    with refused("2 NaN or infinity values, in columns 'chol', 'ca', the first in row 3"):
        ERMClassifier().fit(gaps, *labels)
    texts = frame.astype({"bp": object}).assign(sex="male")
    texts.loc[2, "bp"] = "high"
    with refused("columns 'bp', 'sex' hold text"):
        ERMClassifier().fit(texts, *labels)
    model = ERMClassifier().fit(frame, *labels)
    with refused("in column 'chol'"):
        model.predict(gaps[["age", "chol", "bp", "rate", "st"]].assign(ca=0.0))


def test_doubts_name_the_columns_once(problem: Problem, frame: pandas.DataFrame) -> None:
    table = frame.assign(site=1.0, id=np.arange(len(frame), dtype=float))
    domain = np.where(np.arange(len(frame)) < 8, "clinic", problem.domain)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ERMClassifier().fit(table, problem.y, domain)
    said = [str(each.message) for each in caught]
    for words in ("column 'site' is constant", "column 'id' numbers the rows", "clinic has 8 rows"):
        assert sum(words in sentence for sentence in said) == 1, said
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ERMClassifier().fit(table.to_numpy(), problem.y, problem.domain)
    assert all("numbers the rows" not in str(each.message) for each in caught)
