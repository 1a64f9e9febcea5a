"""Abduction and deduction maps: the form of the predictions, and the truth recovered."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regraft import Factorization, fit_observed
from regraft.core.domains import check_domains
from regraft.premises.factorization import (
    Penalties,
    choose_penalties,
    fit_factorization,
    fix_gauge,
    group_rows,
    read_out,
)
from tests.helpers.factorized_domains import FactorizedDomains, Shift, draw_domains, random_maps

PENALTIES = Penalties(1.0, 1.0)


def observed(truth: FactorizedDomains, group: object) -> Factorization:
    return fit_observed(truth.X, truth.y, truth.domain, group)  # type: ignore[arg-type]


def cosine(one: Tensor, other: Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(one.flatten(), other.flatten(), dim=0))


@pytest.mark.parametrize("shift", ["prior", "full"])
@pytest.mark.parametrize(("groups", "classes"), [(2, 2), (3, 3)])
def test_the_truth_is_recovered(groups: int, classes: int, shift: Shift) -> None:
    truth = draw_domains(1, n=20_000, groups=groups, classes=classes, shift=shift)
    found = observed(truth, truth.group)
    assert found.abductions.shape == (2, 5, groups)
    assert found.deduction.shape == (5, groups, classes)
    for maps in (found.abductions, found.deduction):
        assert float(maps.mean(dim=2).abs().max()) < 1e-14  # in the gauge
    for s, abduction in enumerate(truth.maps.abductions):
        assert cosine(found.abductions[s, :-1], abduction[:-1]) > 0.98
        assert float((found.abductions[s] - abduction).norm() / abduction.norm()) < 0.15
    for u in range(groups):
        ours, deduction = found.deduction[:, u], truth.maps.deduction[:, u]
        assert cosine(ours[:-1], deduction[:-1]) > 0.98
        assert float((ours - deduction).norm() / deduction.norm()) < 0.15


@cache
def small() -> FactorizedDomains:
    return draw_domains(2, n=300, groups=3, classes=3, sources=3, shift="full")


SIZES = st.tuples(st.integers(0, 1000), st.integers(1, 4), st.integers(2, 4), st.integers(2, 3))


@given(SIZES)
def test_predictions_are_the_sum_over_groups(sizes: tuple[int, int, int, int]) -> None:
    seed, d, groups, classes = sizes
    maps = random_maps(seed, d=d, groups=groups, classes=classes, sources=3)
    rng = np.random.default_rng(seed)
    X, domain = rng.standard_normal((6, d)), rng.integers(3, size=6)
    rows, names = torch.from_numpy(X), torch.from_numpy(domain)
    p_u, p_y, p = maps.abduce(rows, names), maps.deduce(rows), maps.predict(rows, names)
    ones = torch.ones(6, dtype=torch.float64)
    assert torch.allclose(p_u.sum(dim=1), ones) and torch.allclose(p.sum(dim=1), ones)
    assert torch.allclose(p_y.sum(dim=2), ones[:, None].expand(-1, groups))
    A, D = maps.abductions.numpy(), maps.deduction.numpy()
    for i, w in enumerate(np.column_stack([X, np.ones(6)])):
        a = np.exp(A[domain[i]].T @ w)
        expected = np.zeros(classes)
        for u in range(groups):
            scores = np.exp(D[:, u].T @ w)
            assert p_u[i, u] == pytest.approx(a[u] / a.sum())
            assert p_y[i, u].numpy() == pytest.approx(scores / scores.sum())
            expected += a[u] / a.sum() * scores / scores.sum()
        assert p[i].numpy() == pytest.approx(expected)


@given(SIZES)
def test_two_classes_are_softmax_times_sigmoid(sizes: tuple[int, int, int, int]) -> None:
    seed, d, groups, _ = sizes
    maps = random_maps(seed, d=d, groups=groups, classes=2, sources=2)
    X = torch.from_numpy(np.random.default_rng(seed).standard_normal((5, d)))
    for s in range(2):
        D = maps.deduction[..., 1] - maps.deduction[..., 0]
        binary = torch.softmax(read_out(X, maps.abductions[s]), dim=1) * read_out(X, D).sigmoid()
        p = maps.predict(X, torch.full((5,), s))
        assert torch.allclose(p[:, 1], binary.sum(dim=1))


@given(SIZES)
def test_no_probability_sees_the_gauge(sizes: tuple[int, int, int, int]) -> None:
    seed, d, groups, classes = sizes
    maps = random_maps(seed, d=d, groups=groups, classes=classes, sources=2)
    rng = np.random.default_rng(seed)
    other = Factorization(
        maps.abductions + torch.from_numpy(rng.standard_normal((2, d + 1, 1))),
        maps.deduction + torch.from_numpy(rng.standard_normal((d + 1, groups, 1))),
    )
    X, domain = torch.from_numpy(rng.standard_normal((6, d))), torch.tensor([0, 1] * 3)
    assert torch.allclose(other.predict(X, domain), maps.predict(X, domain))
    assert torch.allclose(fix_gauge(other.abductions), maps.abductions)
    assert torch.allclose(fix_gauge(other.deduction), maps.deduction)


def test_maps_on_features_predict_as_those_on_whitened_rows() -> None:
    """Also where a feature is the sum of two others, which whitening leaves out."""
    truth = small()
    X = np.column_stack([truth.X, truth.X[:, 0] + truth.X[:, 1]]) * 3 + 5
    domains = check_domains(X, truth.y, truth.domain)
    rows = group_rows(domains, torch.from_numpy(truth.group), 3)
    assert rows.Z.shape == (900, 5)
    maps = fit_factorization(rows, PENALTIES)
    features = maps.in_features(rows.whitening)
    assert features.abductions.shape == (3, 6, 3) and features.deduction.shape == (6, 3, 3)
    Z = rows.whitening(domains.X)[:, :-1]
    domain = domains.domain
    assert torch.allclose(features.abduce(domains.X, domain), maps.abduce(Z, domain))
    assert torch.allclose(features.deduce(domains.X), maps.deduce(Z))
    assert torch.allclose(features.predict(domains.X, domain), maps.predict(Z, domain))


def test_rows_are_shuffled_together_and_each_map_has_its_own() -> None:
    truth = small()
    rows = truth.rows()
    Z = rows.whitening(truth.domains.X)
    place = rows.order
    assert sorted(place.tolist()) == list(range(900)) and place.tolist() != list(range(900))
    assert torch.equal(rows.Z, Z[place])
    assert torch.equal(rows.y, torch.from_numpy(truth.y)[place])
    assert torch.equal(rows.domain, torch.from_numpy(truth.domain)[place])
    assert torch.equal(rows.group, torch.from_numpy(truth.group)[place])
    some = rows.take(rows.y == 1)
    assert torch.equal(some.Z, Z[some.order]) and bool((some.y == 1).all())
    again = group_rows(truth.domains, torch.from_numpy(truth.group), 3, seed=0)
    other = group_rows(truth.domains, torch.from_numpy(truth.group), 3, seed=1)
    assert torch.equal(again.Z, rows.Z) and not torch.equal(other.Z, rows.Z)
    for maps, cell, labels in (
        (rows.groups_by_domain(), rows.domain, rows.group),
        (rows.labels_by_domain(), rows.domain, rows.y),
        (rows.labels_by_group(), rows.group, rows.y),
    ):
        for i in range(3):
            assert torch.equal(maps[i].Z, rows.Z[cell == i])
            assert torch.equal(maps[i].labels, labels[cell == i])


def test_penalties_of_both_maps_are_their_own_by_rows_held_out() -> None:
    """Groups that follow from the inputs, labels that follow from nothing."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 20))
    group, y = (X[:, 0] > 0).astype(int), rng.integers(2, size=240)
    domains = check_domains(X, y, np.repeat([0, 1], 120))
    chosen = choose_penalties(group_rows(domains, torch.from_numpy(group), 2))
    assert chosen.abduction < 10 and chosen.deduction >= 100
    # Copies of rows with labels of no meaning, which only strangers do not know.
    rng = np.random.default_rng(0)
    X, source = rng.standard_normal((60, 15)), np.repeat(np.arange(60), 4)
    y, domain, group = (rng.integers(2, size=60)[source] for _ in range(3))
    rows = group_rows(check_domains(X[source], y, domain), torch.from_numpy(group), 2)
    by_row = choose_penalties(rows)
    whole = choose_penalties(rows, torch.from_numpy(source)[rows.order] % 3 == 0)
    assert whole.abduction > by_row.abduction and whole.deduction > by_row.deduction


def test_a_group_that_a_domain_lacks_is_rare_there() -> None:
    truth = small()
    kept = (truth.group != 2) | (truth.domain != 0)
    X, y, domain = truth.X[kept], truth.y[kept], truth.domain[kept]
    maps = fit_observed(X, y, domain, truth.group[kept])
    assert bool(maps.abductions.isfinite().all())
    p_u = maps.abduce(torch.from_numpy(X), torch.from_numpy(domain))
    assert float(p_u[domain == 0, 2].mean()) < 1e-2
    assert float(p_u[domain == 1, 2].mean()) > 0.1


@pytest.mark.parametrize(
    "values",
    [
        np.array(["ash", "birch", "cedar"]),
        np.array([-1.5, 0.0, 7.0]),
        np.array(["2001-01-01", "2002-01-01", "2003-01-01"], dtype="datetime64[D]"),
        np.array(["ash", "birch", "cedar"], dtype=object),
    ],
)
def test_groups_may_be_of_any_sortable_kind(values: np.ndarray) -> None:
    truth = small()
    plain, named = observed(truth, truth.group), observed(truth, values[truth.group])
    assert torch.equal(named.abductions, plain.abductions)
    assert torch.equal(named.deduction, plain.deduction)
    turned = observed(truth, values[::-1][truth.group])
    assert torch.allclose(turned.abductions.flip(2), plain.abductions, atol=1e-2)
    assert torch.allclose(turned.deduction.flip(1), plain.deduction, atol=1e-2)


@pytest.mark.parametrize(
    ("group", "sentence"),
    [
        (np.zeros(899), r"^X has 900 rows but group has 899: pass one per row\.$"),
        (
            np.full(900, np.nan),
            r"^group is missing, NaN or infinite in 900 rows, .*: drop those rows\.$",
        ),
        (
            np.array([None, *"a" * 899], dtype=object),
            r"^group is missing, NaN or infinite in 1 row, .*: drop that row\.$",
        ),
        (np.array([1, *"a" * 899], dtype=object), r"^group mixes values that cannot be sorted:"),
        (np.zeros((900, 2)), r"^group has shape \(900, 2\): pass one value per row of X\.$"),
    ],
)
def test_bad_groups_are_named(group: np.ndarray, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        observed(small(), group)


@pytest.mark.parametrize(("domain", "span"), [([0, 2, 3], "0 to 3"), ([-1, 0, 2], "-1 to 2")])
def test_domains_without_maps_are_refused(domain: list[int], span: str) -> None:
    maps = random_maps(0, d=2, groups=2, classes=2, sources=3)
    X = torch.zeros(3, 2, dtype=torch.float64)
    for ask in (maps.abduce, maps.predict):
        with pytest.raises(ValueError, match=rf"^domain holds {span}: pass indices from 0 to 2\.$"):
            ask(X, torch.tensor(domain))
        assert ask(X[:0], torch.zeros(0, dtype=torch.int64)).shape == (0, 2)
