import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regraft.core.domains import check_domains
from regraft.core.features import check_features
from tests.helpers.problems import Problem, make_problem


def test_keeps_rows_and_labels_and_shares_the_memory_of_floats(problem: Problem) -> None:
    domains = check_domains(*problem.data)
    assert torch.equal(domains.X, torch.from_numpy(problem.X))
    assert (domains.classes[domains.y.numpy()] == problem.y).all()
    assert (domains.names[domains.domain.numpy()] == problem.domain).all()
    X = problem.X.astype(np.float32)
    assert check_domains(X, problem.y, problem.domain).X.data_ptr() == X.ctypes.data


@given(st.lists(st.integers(4, 40), min_size=1, max_size=5))
def test_domains_weigh_the_same(sizes: list[int]) -> None:
    domain = np.repeat(np.arange(len(sizes)), sizes)
    y = np.concatenate([np.arange(size) % 2 for size in sizes])
    X = np.random.default_rng(0).standard_normal((len(y), 2))
    domains = check_domains(X, y, domain)
    mass = torch.zeros(len(sizes), dtype=torch.float64).index_add_(
        0, domains.domain, domains.weight
    )
    assert torch.allclose(mass, torch.full_like(mass, 1 / len(sizes)))


def test_labels_of_any_kind() -> None:
    problem = make_problem(n=20)
    y = np.where(problem.y == 1, "dog", "cat")
    domain = np.array([(s == "source 1") for s in problem.domain])
    domains = check_domains(problem.X, y, domain)
    assert domains.classes.tolist() == ["cat", "dog"]
    assert domains.names.tolist() == [False, True]


def _bad_cases() -> dict[str, tuple[object, object, object, str]]:
    p = make_problem(n=20)
    nan = p.X.copy()
    nan[3, 2] = np.nan
    infinite = p.X.copy()
    infinite[0, 0] = -np.inf
    rare = p.y.copy().astype(object)
    rare[:] = [str(v) for v in p.y]
    rare[0] = "rare"
    lonely = p.domain.astype(object)
    lonely[0] = "alone"
    missing = p.y.astype(float)
    missing[1] = np.nan
    unnamed = p.domain.astype(object)
    unnamed[2] = None
    return {
        "nan": (nan, p.y, p.domain, "row 3, column 2"),
        "inf": (infinite, p.y, p.domain, "infinity"),
        "short y": (p.X, p.y[:-1], p.domain, "y has 39"),
        "short domain": (p.X, p.y, p.domain[:-2], "sample_domain has 38"),
        "class of one": (p.X, rare, p.domain, "class rare has one sample"),
        "domain of one": (p.X, p.y, lonely, "domain alone has one sample"),
        "domain is label": (p.X, p.domain, p.domain, "no class has rows in two domains"),
        "one class": (p.X, np.zeros(40), p.domain, "one class"),
        "constant": (np.ones_like(p.X), p.y, p.domain, "constant"),
        "text": (np.full(p.X.shape, "a"), p.y, p.domain, "numbers"),
        "vector": (p.X[:, 0], p.y, p.domain, "reshape"),
        "empty": (p.X[:0], p.y[:0], p.domain[:0], "empty"),
        "nan label": (
            p.X,
            missing,
            p.domain,
            "y is missing, NaN or infinite in 1 row",
        ),
        "no domain": (p.X, p.y, unnamed, "sample_domain is missing, NaN or infinite in 1 row"),
        "unsortable": (p.X, np.array([1, "a"] * 20, dtype=object), p.domain, "cannot be sorted"),
        "huge": (p.X * 1e160, p.y, p.domain, "rescale"),
        "tiny": (p.X * 1e-170, p.y, p.domain, "rescale"),
        "pandas NA": (p.X, p.y, pd.array([*p.domain[:-1], None], dtype="string"), "missing"),
        "wide y": (p.X, np.stack([p.y, p.y], 1), p.domain, "one value per row"),
    }


@pytest.mark.parametrize("name", _bad_cases())
def test_bad_input_gets_one_sentence(name: str) -> None:
    X, y, domain, words = _bad_cases()[name]
    with pytest.raises(ValueError, match=words) as caught:
        check_domains(X, y, domain)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X: np.column_stack([X, np.ones(len(X))]), "1 of 7 features are constant"),
        (lambda X: X * [1, 1, 1e5, 1, 1, 1], "feature 2 varies over 1000 times more"),
        (lambda X: np.tile(X, 110), "more features"),
    ],
)
def test_doubtful_features_warn(problem: Problem, change: Any, words: str) -> None:
    with pytest.warns(UserWarning, match=words):
        check_domains(change(problem.X), problem.y, problem.domain)


@pytest.mark.parametrize("dtype", [">f8", np.longdouble, np.float16])
def test_any_float_and_any_stride(problem: Problem, dtype: Any) -> None:
    X = problem.X.astype(dtype)[::-1, ::-1]
    domains = check_domains(X, problem.y, problem.domain)
    assert np.allclose(domains.X.numpy(), problem.X[::-1, ::-1], rtol=1e-2, atol=1e-2)
    assert check_features(np.arange(6).reshape(3, 2)).dtype == np.float64


def test_read_only_rows_are_welcome(problem: Problem, recwarn: pytest.WarningsRecorder) -> None:
    X = problem.X.copy()
    X.flags.writeable = False
    check_domains(X, problem.y, problem.domain)
    assert not recwarn.list


def test_unknown_device(problem: Problem) -> None:
    with pytest.raises(ValueError, match="device 'abacus' is not available"):
        check_domains(*problem.data, device="abacus")


def test_many_domains_give_one_warning_of_each_kind() -> None:
    rng = np.random.default_rng(0)
    domain = np.repeat(np.arange(500), 4)
    y = rng.integers(0, 3, 2000)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_domains(rng.normal(size=(2000, 2)), y, domain)
    messages = [str(each.message) for each in caught]
    assert messages[0] == (
        "domain 0 has 4 rows: what is said about so few is mostly noise, and 499 more domains have "
        "few rows."
    )
    assert len(messages) == 2 and "more sources lack classes." in messages[1]
