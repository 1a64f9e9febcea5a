"""Domains whose heads are known, found again among the plausible targets of others."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from regraft.core.domains import Domains, check_domains
from regraft.premises.placement import place_domain

Array = NDArray[np.float64]

SOURCES = ("Aarau", "Bern", "Chur")
ROWS = 3000  # of each domain
# On [x, 1] with standard normal x: three classes, whose heads differ in the first two features.
HEADS = np.array(
    [
        [[1.5, 0.0, 0.7, 0.3], [-1.5, 0.0, -0.7, 0.0], [0.0, 0.0, 0.0, -0.3]],
        [[-1.0, 1.0, 0.7, 0.3], [1.0, -1.0, -0.7, 0.0], [0.0, 0.0, 0.0, -0.3]],
        [[0.0, 0.0, 0.7, 0.3], [0.0, 1.5, -0.7, 0.0], [0.0, -1.5, 0.0, -0.3]],
    ]
)


def draw(head: Array, seed: int, n: int = ROWS) -> tuple[Array, NDArray[np.str_]]:
    """Rows (n, 3) and their labels, whose logits are those of ``head`` (3, 4)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    logits = X @ head[:, :3].T + head[:, 3]
    chosen = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return X, np.array(["no", "perhaps", "yes"])[chosen]


def gather(places: Iterable[int]) -> Domains:
    drawn = [draw(HEADS[s], seed=s) for s in places]
    X, y = (np.concatenate(column) for column in zip(*drawn, strict=True))
    return check_domains(X, y, np.repeat([SOURCES[s] for s in places], ROWS))


def nats(head: Array) -> float:
    """Root mean square over classes and standard normal rows of the logits of ``head`` (3, 4)."""
    # The features and the constant are uncorrelated and of variance, or square, one.
    return float(np.sqrt(np.square(head - head.mean(axis=0)).sum() / len(head)))


@pytest.fixture(scope="module")
def two() -> Domains:
    return gather((0, 1))


@pytest.mark.parametrize(
    ("weights", "slack"),
    [
        pytest.param((1.0, 0.0, 0.0), 0.1, id="the first source"),
        pytest.param((0.0, 1.0, 0.0), 0.1, id="the second source"),
        pytest.param((0.0, 0.0, 1.0), 0.1, id="the third source"),
        pytest.param((0.5, 0.5, 0.0), 0.1, id="halfway between two of three"),
        pytest.param((0.5, 0.5), 0.05, id="the mean of two"),
        pytest.param((1.6, -0.6), 0.15, id="beyond two, out of the simplex"),
    ],
)
def test_a_combination_lies_at_its_place(weights: tuple[float, ...], slack: float) -> None:
    sources = HEADS[: len(weights)]
    head = np.tensordot(weights, sources, axes=1)
    placed = place_domain(gather(range(len(weights))), *draw(head, seed=20))
    assert list(placed.weights.values()) == pytest.approx(list(weights), abs=slack)
    assert list(placed.weights) == list(SOURCES[: len(weights)])
    # At the mean of all, the distance is zero up to a tenth of the sources' own.
    tenth = 0.1 * nats((HEADS[0] - HEADS[1]) / 2)
    expected = nats(head - sources.mean(axis=0))
    assert placed.distance == pytest.approx(expected, rel=0.1, abs=0 if expected else tenth)
    assert abs(placed.misfit) < 0.01


def test_small_domains_and_misfits_lie_where_they_should(two: Domains) -> None:
    inside = place_domain(two, *draw(HEADS[0], seed=23))
    outside = HEADS[0].copy()
    outside[:, 2] *= -1  # what both sources agree on, turned around
    placed = place_domain(two, *draw(outside, seed=23))
    assert placed.misfit > 0.1 > 10 * abs(inside.misfit)
    assert placed.misfit == placed.risk - placed.own_risk
    placed = place_domain(two, *draw(HEADS[1], seed=24, n=200))
    assert placed.weights == pytest.approx({"Aarau": 0.0, "Bern": 1.0}, abs=0.3)
    X, y = draw(HEADS[1], seed=26, n=150)
    first, again, other = (place_domain(two, X, y, seed=seed) for seed in (0, 0, 1))
    assert first == again and first.own_risk != other.own_risk


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1))
def test_the_order_of_the_rows_does_not_move_the_place(two: Domains, seed: int) -> None:
    X, y = draw(HEADS[1], seed=25, n=150)
    placed = place_domain(two, X, y)
    order = np.random.default_rng(seed).permutation(len(y))
    shuffled = place_domain(two, X[order], y[order], seed=seed)
    assert shuffled.distance == pytest.approx(placed.distance, rel=1e-3)
    assert shuffled.risk == pytest.approx(placed.risk, abs=1e-6)
    assert sum(shuffled.weights.values()) == pytest.approx(1)


def test_other_classes_and_a_single_source_are_refused(two: Domains) -> None:
    X, y = draw(HEADS[0], seed=27, n=100)
    other = "the domain to place has the classes {}, its sources {}: pass rows of the same."
    alone = "one source has no hull to place a domain in: pass two sources or more."
    known = ["no", "perhaps", "yes"]
    for sources, labels, sentence in (
        (two, np.where(y == "yes", "no", y), other.format(["no", "perhaps"], known)),
        (two, np.where(y == "yes", "never", y), other.format(["never", "no", "perhaps"], known)),
        (gather((0,)), y, alone),
    ):
        with pytest.raises(ValueError) as refused:
            place_domain(sources, X, labels)
        assert str(refused.value) == sentence
