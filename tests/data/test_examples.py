"""The generator does what it says, and the shipped banks are what they claim to be."""

from dataclasses import fields
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from regraft import CROClassifier, ERMClassifier, load_demo, make_confounded_domains

seeds = st.integers(0, 2**32 - 1)


def within_sampling_error(hits: NDArray[np.bool_], probability: float) -> bool:
    """Whether a rate is within five standard errors of its probability."""
    error = np.sqrt(probability * (1 - probability) / len(hits))
    return bool(abs(hits.mean() - probability) <= 5 * error)


@settings(deadline=None, max_examples=25)
@given(
    seeds,
    st.integers(2, 5),
    st.lists(st.floats(0, 1), min_size=1, max_size=4),
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(0, 6),
)
def test_shapes(
    seed: int, n_classes: int, strengths: list[float], n: int, n_target: int, extra: int
) -> None:
    d = 2 * n_classes + extra
    data = make_confounded_domains(
        n,
        n_classes=n_classes,
        strengths=strengths,
        n_target=n_target,
        n_features=d,
        random_state=seed,
    )
    rows = n * len(strengths)
    assert data.X.shape == (rows, d)
    assert data.X_target.shape == (n_target, d)
    assert data.cause_directions.shape == data.confounder_directions.shape == (n_classes, d)
    for name in ("y", "cause", "confounder"):
        for column, length in ((name, rows), (f"{name}_target", n_target)):
            assert getattr(data, column).shape == (length,)
            assert set(getattr(data, column)) <= set(range(n_classes))
    assert data.sample_domain.tolist() == [
        f"source {s}" for s in range(len(strengths)) for _ in range(n)
    ]
    assert sorted(data.permutation) == list(range(n_classes))
    assert not np.any(data.permutation == np.arange(n_classes))


def test_seed_decides_everything() -> None:
    first, again, other = (make_confounded_domains(50, random_state=s) for s in (0, 0, 1))
    for field in fields(first):
        assert np.array_equal(getattr(first, field.name), getattr(again, field.name))
    assert not np.allclose(first.X, other.X)
    assert not np.allclose(first.cause_directions, other.cause_directions)
    state = np.random.RandomState(0)
    assert np.array_equal(make_confounded_domains(50, random_state=state).X, first.X)
    assert not np.allclose(make_confounded_domains(50, random_state=state).X, first.X)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_rates(n_classes: int) -> None:
    """Confounder strengths, label noise and the permuted association hold up to sampling error."""
    strengths = (0.9, 0.8, 0.6)
    data = make_confounded_domains(
        20_000, n_classes=n_classes, strengths=strengths, label_noise=0.25, random_state=0
    )
    for s, strength in enumerate(strengths):
        rows = data.sample_domain == f"source {s}"
        assert within_sampling_error(data.confounder[rows] == data.y[rows], strength)
        assert within_sampling_error(data.cause[rows] != data.y[rows], 0.25)
    favoured = data.permutation[data.y_target]
    assert within_sampling_error(data.confounder_target == favoured, strengths[0])
    assert within_sampling_error(
        data.confounder_target == data.y_target, (1 - strengths[0]) / (n_classes - 1)
    )
    assert within_sampling_error(data.cause_target != data.y_target, 0.25)


def test_what_is_not_kept_is_uniform_and_unconfounded_means_no_association() -> None:
    """Wrong labels and disagreeing confounders have no favourite; causes are uniform."""
    data = make_confounded_domains(
        60_000, n_classes=4, strengths=(0.5,), label_noise=0.5, random_state=0
    )
    for z in range(4):
        assert within_sampling_error(data.cause == z, 0.25)
        for other in set(range(4)) - {z}:
            assert within_sampling_error(data.y[data.cause == z] == other, 0.5 / 3)
            assert within_sampling_error(data.confounder[data.y == z] == other, 0.5 / 3)
    # Strengths 1 / C make confounder and label independent everywhere.
    data = make_confounded_domains(
        20_000, n_classes=5, strengths=(1 / 5,) * 2, label_noise=0, random_state=0
    )
    for y, confounder in (data.y, data.confounder), (data.y_target, data.confounder_target):
        for label, value in product(range(5), repeat=2):
            assert within_sampling_error(confounder[y == label] == value, 1 / 5)


def test_without_noise_everything_is_exact_and_codes_are_rotated() -> None:
    """Strengths 0 and 1 and no noise leave nothing to chance, and the codes are the features."""
    data = make_confounded_domains(500, strengths=(1, 0), label_noise=0, noise=0, random_state=0)
    codes = data.cause_directions[data.cause] + data.confounder_directions[data.confounder]
    assert np.allclose(data.X, codes)
    assert np.array_equal(data.y, data.cause)
    assert np.array_equal(data.confounder[:500], data.y[:500])
    assert np.array_equal(data.confounder[500:], 1 - data.y[500:])
    assert np.array_equal(data.confounder_target, data.permutation[data.y_target])
    # Codes have the stated lengths, and no feature is a code of its own.
    data = make_confounded_domains(
        10, n_classes=3, cause_signal=2.0, confounder_signal=3.0, random_state=0
    )
    codes = np.vstack([data.cause_directions, data.confounder_directions])
    assert np.allclose(codes @ codes.T, np.diag([4.0] * 3 + [9.0] * 3))
    shares = codes**2 / (codes**2).sum(axis=1, keepdims=True)
    assert shares.max() < 0.9


def test_encoding_is_linear() -> None:
    """Features are the two codes plus isotropic noise of the stated size, sources and target."""
    n, d, noise = 30_000, 12, 0.7
    data = make_confounded_domains(
        n, n_classes=3, strengths=(0.6,), n_features=d, noise=noise, random_state=0
    )
    for X, cause, confounder in (
        (data.X, data.cause, data.confounder),
        (data.X_target, data.cause_target, data.confounder_target),
    ):
        design = np.hstack([np.eye(3)[cause], np.eye(3)[confounder]])
        fitted = design @ np.linalg.lstsq(design, X, rcond=None)[0]
        codes = data.cause_directions[cause] + data.confounder_directions[confounder]
        assert np.abs(fitted - codes).max() < 0.1
        residual = X - fitted
        covariance = residual.T @ residual / n
        assert np.abs(covariance - noise**2 * np.eye(d)).max() < 6 * noise**2 * np.sqrt(2 / n)


def test_the_default_problem_is_hard_for_erm_and_solvable() -> None:
    """ERM is at chance, a head that saw no confounding is not, CRO is most of the way there."""
    strengths = (0.9, 0.8, 0.7)
    data, unconfounded = (
        make_confounded_domains(n_classes=5, strengths=s, random_state=0)
        for s in (strengths, (1 / 5,) * 3)
    )
    heads = (ERMClassifier(), data), (CROClassifier(), data), (ERMClassifier(), unconfounded)
    scores = [
        model.fit(rows.X, rows.y, rows.sample_domain).score(data.X_target, data.y_target)
        for model, rows in heads
    ]
    assert 0.15 < scores[0] < 0.25
    assert scores[1] > 1.8 * scores[0]
    assert 0.64 < scores[2] < 0.72


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_samples": 0}, "n_samples is 0"),
        ({"n_target": 0}, "n_target is 0"),
        ({"n_classes": 1}, "n_classes is 1"),
        ({"n_classes": 11}, "n_features is 20.*pass 22 or more"),
        ({"strengths": ()}, "strengths is empty"),
        ({"strengths": (0.9, 1.1)}, "strengths holds 1.1"),
        ({"strengths": (float("nan"),)}, "strengths holds nan"),
        ({"label_noise": -0.1}, "label_noise is -0.1"),
        ({"noise": -1.0}, "noise is -1.0"),
        ({"cause_signal": float("inf")}, "cause_signal is inf"),
        ({"confounder_signal": -2.0}, "confounder_signal is -2.0"),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"{message}.*\.$"):
        make_confounded_domains(**{"n_samples": 10, **parameters})


@pytest.mark.parametrize(
    ("cell", "agreements"),
    [
        ("-90%", {"+90%": 0.9, "+80%": 0.8, "-90%": 0.1}),
        ("+90%", {"+80%": 0.8, "-90%": 0.1, "+90%": 0.9}),
    ],
)
def test_demo_banks(cell: str, agreements: dict[str, float]) -> None:
    demo = load_demo(cell)
    assert demo.target == cell
    assert demo.X.shape == (12_000, 128)
    assert demo.X_target.shape == (3_000, 128)
    assert demo.X.dtype == demo.X_target.dtype == np.float64
    assert np.isfinite(demo.X).all()
    assert demo.y.shape == demo.colour.shape == demo.sample_domain.shape == (12_000,)
    assert demo.y_target.shape == demo.colour_target.shape == (3_000,)
    assert set(demo.y) == set(demo.y_target) == {0, 1}
    assert set(demo.sample_domain) == set(agreements) - {cell}
    for name in set(demo.sample_domain):
        rows = demo.sample_domain == name
        assert within_sampling_error(demo.colour[rows] == demo.y[rows], agreements[name])
    assert within_sampling_error(demo.colour_target == demo.y_target, agreements[cell])


def test_erm_follows_the_colour_in_the_demo_whose_cells_are_listed() -> None:
    """In the reversed cell the ERM head is right as rarely as the colour is."""
    demo = load_demo()
    model = ERMClassifier().fit(demo.X, demo.y, demo.sample_domain)
    assert model.score(demo.X, demo.y) > 0.8
    assert model.score(demo.X_target, demo.y_target) < 0.2
    # The message lists the cells there are.
    with pytest.raises(ValueError, match=r"""cell is '\+80%': pass one of '-90%', '\+90%'\."""):
        load_demo("+80%")
