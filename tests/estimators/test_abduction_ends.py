"""The rows at both ends are the surest ones of their class, and the columns those that differ."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regraft import Abduction, abduct, make_confounded_domains
from regraft.estimators.abduction_ends import (
    MOST_CLASSES,
    ClassEnds,
    abduction_document,
    compare_columns,
    find_ends,
    share_table,
    shorten,
)


def make_abduction(groups: Any, class_shares: Any) -> Abduction:
    """An abduction with these groups (n, G) and shares (K, C, G), and nothing else to tell."""
    shares = np.asarray(class_shares, float)
    K, C, _ = shares.shape
    return Abduction(
        groups=np.asarray(groups, float),
        classes=np.arange(C),
        domains=np.array([f"s{k}" for k in range(K)]),
        shares=shares.mean(axis=1),
        share_errors=np.full((K, shares.shape[2]), 0.01),
        class_shares=shares,
        class_share_errors=np.full_like(shares, 0.01),
        alignment=np.ones(C),
        gain=0.1,
        gain_error=0.01,
        possible_gain=0.2,
        separation=3.0,
        p_value=0.01,
        contrast=np.linspace(1, -1, K),
        warnings=(),
        models=None,
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(2, 3))
def test_ends_are_the_surest_rows_of_each_class(seed: int, n: int, G: int) -> None:
    random = np.random.default_rng(seed)
    groups = random.dirichlet(np.ones(G), 40)
    y, domain = random.integers(2, size=40), random.choice(["s0", "s1"], 40)
    found = make_abduction(groups, random.dirichlet(np.ones(G), (2, 2)))
    among = random.random(40) < 0.7
    for c, ends in enumerate(find_ends(found, y, domain, n, among)):
        assert ends.label == str(c)
        for end, u in ((ends.last, G - 1), (ends.first, 0)):
            rows = [row.number - 1 for row in end.rows]
            allowed = np.flatnonzero((y == c) & among & (groups.argmax(axis=1) == u))
            assert len(rows) == min(n, len(allowed)) and set(rows) <= set(allowed.tolist())
            beliefs = [row.posterior for row in end.rows]
            assert beliefs == sorted(groups[allowed, u].tolist(), reverse=True)[:n]
            assert [row.domain for row in end.rows] == domain[rows].tolist()
        assert ends.rows == (*ends.last.rows, *ends.first.rows)


def test_titles_say_which_source_has_more() -> None:
    shares = [[[0.1, 0.9], [0.6, 0.4]], [[0.4, 0.6], [0.5, 0.5]]]
    found = make_abduction([[0.1, 0.9], [0.9, 0.1]], shares)
    first, second = find_ends(found, np.array([0, 1]), np.array(["s0", "s1"]), 1)
    assert first.last.title == "more in s0 (90%) than in s1 (60%)"
    assert first.first.title == "less in s0 (10%) than in s1 (40%)"
    assert second.last.title == "more in s1 (50%) than in s0 (40%)"
    assert second.last.rows == () and first.first.rows == ()


def test_of_many_classes_those_are_shown_in_which_sources_differ_most() -> None:
    C = MOST_CLASSES + 3
    last = np.stack([np.full(C, 0.5), np.linspace(0.5, 0.9, C)])
    found = make_abduction(np.full((2, 2), 0.5), np.stack([1 - last, last], axis=2))
    ends = find_ends(found, np.array([0, 1]), np.array(["s0", "s1"]), 1)
    assert [each.label for each in ends] == [str(c) for c in range(3, C)]
    table = share_table(abduction_document(found, ends))
    assert table.columns == ("source", "all rows", *(str(c) for c in range(3, C)))
    assert table.rows[1][-1] == "90.0%"


def test_columns_that_differ_are_found() -> None:
    random = np.random.default_rng(0)
    u, y = random.integers(2, size=600), random.integers(2, size=600)
    X = random.standard_normal((600, 7))
    X[:, 4] += 5 * u
    X[:, 2] *= 1e6
    X[:, 6] = 3.0  # constant
    groups = np.stack([1 - u, u], axis=1)
    found = make_abduction(groups, np.full((2, 2, 2), 0.5))
    ends = find_ends(found, y, np.full(600, "s0"), 2)
    names = [f"f{j}" for j in range(7)]
    for each in compare_columns(found, X, y, ends, names):
        assert len(each.columns) == 5 and each.columns[0].name == "f4"
        top = each.columns[0]
        rows = y == int(each.label)
        assert top.last == pytest.approx(X[rows & (u == 1), 4].mean())
        assert top.first == pytest.approx(X[rows & (u == 0), 4].mean())
        assert top.difference == pytest.approx(5, abs=0.5)
        assert all(abs(other.difference) < 0.5 for other in each.columns[1:])
        assert each.column_table(2).rows[0][0] == "f4"
    assert compare_columns(found, X, y, ends)[0].columns[0].name == "column 5"


def test_a_column_that_tells_the_groups_apart_comes_first() -> None:
    u = np.repeat([0, 1], 50)
    X = np.random.default_rng(0).standard_normal((100, 3))
    X[:, 1], X[:, 2] = -u, 0.1
    found = make_abduction(np.stack([1 - u, u], axis=1), np.full((2, 2, 2), 0.5))
    y = np.arange(100) % 2
    ends = find_ends(found, y, np.full(100, "s0"), 1)
    columns = compare_columns(found, X, y, ends, ["noise", "missing", "constant"])[0].columns
    assert [each.name for each in columns] == ["missing", "noise", "constant"]
    assert [each.difference for each in columns][::2] == [-99.0, 0.0]


def test_what_was_put_into_a_gap_is_not_told() -> None:
    u = np.repeat([0, 1], 10)
    names = ["ca", "age", "ca is missing", "thal=low", "thal=high", "thal is missing"]
    last = [0.0, 60.0, 1, 0, 0, 1]  # neither ca nor thal is known; 0 is the median of ca
    X = np.where(u[:, None] == 1, last, [2.0, 50.0, 0, 1, 0, 0])
    found = make_abduction(np.stack([1 - u, u], axis=1), np.full((2, 2, 2), 0.5))
    y = np.arange(20) % 2
    each = compare_columns(found, X, y, find_ends(found, y, np.full(20, "s0"), 1), names)[0]
    told = [row.text.partition(": ")[2].split(", ") for row in each.rows]
    assert sorted(told[0]) == ["age 60", "ca is missing", "thal is missing"]
    assert sorted(told[1]) == ["age 50", "ca is known", "thal is known", "thal=low"]


def test_means_leave_out_what_was_put_into_gaps() -> None:
    u = np.repeat([0, 1], 100)
    missing = np.where(u == 1, np.arange(200) % 2, 0)
    ca = np.where(missing == 1, 9.0, np.arange(200) % 7)  # 9 was put into the gaps
    names = ["ca", "ca is missing"]
    found = make_abduction(np.stack([1 - u, u], axis=1), np.full((2, 2, 2), 0.5))
    y = np.zeros(200, int)
    ends = find_ends(found, y, np.full(200, "s0"), 1)[:1]
    X = np.column_stack([ca, missing])
    by_name = {each.name: each for each in compare_columns(found, X, y, ends, names)[0].columns}
    assert by_name["ca"].last == pytest.approx(ca[(u == 1) & (missing == 0)].mean())
    assert by_name["ca"].first == pytest.approx(ca[u == 0].mean())
    X[:, 1] = u  # never known in the last group, so there is nothing to compare
    assert [each.name for each in compare_columns(found, X, y, ends, names)[0].columns] == names[1:]


def test_a_document_is_plain_and_comes_back() -> None:
    data = make_confounded_domains(300, strengths=(0.9, 0.6), n_features=8, random_state=0)
    found = abduct(data.X, data.y, data.sample_domain)
    ends = find_ends(found, data.y, data.sample_domain, 3)
    ends = compare_columns(found, data.X, data.y, ends)
    document = json.loads(json.dumps(abduction_document(found, ends), allow_nan=False))
    assert [ClassEnds.from_dict(each) for each in document["ends"]] == list(ends)
    assert document["summary"] == found.summary()
    shown = [row.number - 1 for each in ends for row in each.last.rows]
    agrees = data.confounder[shown] == data.y[shown]
    assert agrees.all() or not agrees.any()  # the factor is recognized


@given(gain=st.floats(-0.1, 1), possible=st.floats(0, 1))
def test_groups_never_tell_more_than_is_possible(gain: float, possible: float) -> None:
    found = make_abduction([[0.1, 0.9], [0.9, 0.1]], np.full((2, 2, 2), 0.5))
    said = replace(found, gain=gain, possible_gain=possible).summary()
    assert f"{possible:.4f}" in said
    assert ("the rows are too few" in said) == (gain > possible)
    assert (f"tell {gain:.4f} ± 0.0100 nats" in said) == (gain <= possible)


def test_without_a_factor_there_are_no_ends() -> None:
    found = make_abduction(np.ones((4, 1)), np.ones((2, 2, 1)))
    assert find_ends(found, np.array([0, 1, 0, 1]), np.array(["s0"] * 4), 2) == ()


def test_texts_become_one_printable_line() -> None:
    assert shorten(" a\n\tb\x1b[31m c\x00 ") == "a b [31m c"
    long = shorten("x" * 1000)
    assert len(long) == 160 and long.endswith("…")
