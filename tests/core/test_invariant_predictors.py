"""The introduction's equivalence: when is an invariant predictor invariant abduction and deduction?

All of it is checked by enumeration: inputs (part, rest), a cause u and a label y with finitely many
values, and two domains whose laws are tables. The predictor sees the part alone.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from regraft.premises.factorization import Factorization
from tests.helpers.problems import normal

Array = NDArray[np.object_]  # of fractions: equal means equal


def shares(rng: np.random.Generator, *shape: int) -> Array:
    """Random positive fractions that sum to one over the last axis."""
    counts = rng.integers(1, 10, shape)
    return np.vectorize(Fraction, otypes=[object])(counts, counts.sum(axis=-1, keepdims=True))


class Laws(NamedTuple):
    """What one domain says about u and y, given the part of the input."""

    prediction: Array  # (part, y) P(y | part)
    posterior: Array  # (part, y, u) P(u | part, y)
    abduction: Array  # (part, u) P(u | part)
    deduction: Array  # (part, u, y) P(y | part, u)


def read_laws(joint: Array) -> Laws:
    """Sum the law (part, rest, u, y) of all variables over the rest, and condition."""
    both = joint.sum(axis=1)  # (part, u, y)
    total = both.sum(axis=(1, 2))[:, None]
    by_label, by_cause = both.sum(axis=1), both.sum(axis=2)
    posterior = (both / by_label[:, None]).transpose(0, 2, 1)
    return Laws(by_label / total, posterior, by_cause / total, both / by_cause[..., None])


def draw_joint(
    rng: np.random.Generator, prediction: Array, posterior: Array, rest: int = 2
) -> Array:
    """Draw a law (part, rest, u, y) with these conditionals; all else is its own."""
    parts, classes, causes = posterior.shape
    inputs = shares(rng, parts)[:, None, None]
    both = inputs * prediction[:, None] * posterior.transpose(0, 2, 1)
    others = shares(rng, parts, causes, classes, rest).transpose(0, 3, 1, 2)
    joint: Array = both[:, None] * others
    return joint


sizes = st.tuples(st.integers(1, 3), st.integers(2, 4), st.integers(2, 3))


@given(st.integers(0, 2**31), sizes, st.booleans(), st.booleans())
def test_both_invariances_are_an_invariant_predictor_and_a_cause_read_alike(
    seed: int, size: tuple[int, int, int], same_prediction: bool, same_posterior: bool
) -> None:
    """The introduction's equivalence, with the condition on U that makes it exact."""
    rng = np.random.default_rng(seed)
    parts, causes, classes = size
    prediction, posterior = shares(rng, parts, classes), shares(rng, parts, classes, causes)
    source = draw_joint(rng, prediction, posterior)
    target = draw_joint(
        rng,
        prediction if same_prediction else shares(rng, parts, classes),
        posterior if same_posterior else shares(rng, parts, classes, causes),
    )
    assert source.sum() == target.sum() == 1
    here, there = read_laws(source), read_laws(target)
    assert np.array_equal(here.prediction, prediction)
    assert np.array_equal((here.abduction[..., None] * here.deduction).sum(axis=1), prediction)

    invariant = Laws(*(np.array_equal(*pair) for pair in zip(here, there, strict=True)))
    assert (invariant.abduction and invariant.deduction) == (
        invariant.prediction and invariant.posterior
    )
    if same_posterior:  # then it is the paper's sentence
        assert invariant.prediction == (invariant.abduction and invariant.deduction)


def maps_of(abductions: torch.Tensor, deduction: torch.Tensor) -> Factorization:
    """The maps of P^s(u) (K, r) and P(y | u) (r, C), at one input, which is zero."""
    K, r = abductions.shape
    constant = torch.zeros(K, 2, r, dtype=torch.float64)
    constant[:, 1] = abductions.log()
    labels = torch.zeros(2, *deduction.shape, dtype=torch.float64)
    labels[1] = deduction.log()
    return Factorization(constant, labels)


def predictions(maps: Factorization) -> torch.Tensor:
    """(K, C) P^s(y) of every domain."""
    K = len(maps.abductions)
    return maps.predict(torch.zeros(K, 1, dtype=torch.float64), torch.arange(K))


@given(st.integers(0, 2**31), st.integers(2, 4), st.integers(2, 4))
def test_with_an_invariant_deduction_labels_must_tell_the_causes_apart(
    seed: int, causes: int, classes: int
) -> None:
    """Another abduction gives the same prediction iff the rows P(. | u) are affinely dependent."""
    deduction = normal(seed, causes, classes).softmax(1)
    abduction = normal(seed + 1, causes).softmax(0)
    system = torch.cat([deduction, torch.ones(causes, 1, dtype=torch.float64)], dim=1)
    _, values, right = torch.linalg.svd(system.T)
    unseen = right[int((values > 1e-9).sum()) :]  # changes of the abduction that no label shows
    assert len(unseen) == max(0, causes - classes)  # of generic rows
    if len(unseen):
        change = unseen[0] / unseen[0].abs().max()
        other = abduction + 0.5 * abduction.min() * change
        assert float(other.min()) > 0 and not torch.allclose(other, abduction, atol=1e-6)
        same = predictions(maps_of(torch.stack([abduction, other]), deduction))
        assert torch.allclose(same[0], same[1], atol=1e-12)
    moved = 0.5 * abduction + 0.5 * normal(seed + 2, causes).softmax(0)
    shown = predictions(maps_of(torch.stack([abduction, moved]), deduction))
    least = float(values[causes - 1]) if not len(unseen) else 0.0
    # The prediction moves at least as far as the smallest singular value says.
    assert float((shown[1] - shown[0]).norm()) >= least * float((moved - abduction).norm()) - 1e-12


def test_an_invariant_predictor_alone_fixes_neither_abduction_nor_deduction() -> None:
    """Three ways in which the equivalence fails for a U that the domains read differently."""
    half, flat = [0.5, 0.5], [[0.3, 0.7], [0.3, 0.7]]
    sharp = [[0.8, 0.2], [0.2, 0.8]]
    cases = {
        "cancels": ((half, sharp), ([0.25, 0.75], [[0.8, 0.2], [0.4, 0.6]])),
        "deduction alone": ((half, sharp), (half, [[0.9, 0.1], [0.1, 0.9]])),
        "abduction alone": ((half, flat), ([0.1, 0.9], flat)),  # no label depends on u
    }
    for name, domains in cases.items():
        tables = [tuple(torch.tensor(t, dtype=torch.float64) for t in pair) for pair in domains]
        (here,), (there,) = (predictions(maps_of(a[None], d)) for a, d in tables)
        assert torch.allclose(here, there, atol=1e-12), name
        changed = [not torch.equal(*pair) for pair in zip(*tables, strict=True)]
        assert changed == [name != "deduction alone", name != "abduction alone"]
