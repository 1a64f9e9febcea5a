"""Factorized targets against the truth, in finite models where every probability is known."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from torch import Tensor

from regraft.core.hull import (
    Hull,
    Objective,
    _value_and_gradient,
    attack,
    attack_keeping_inputs,
    factorize_rows,
    fit_hull,
)
from regraft.core.target_rows import FactorizedRows
from tests.helpers.problems import normal, with_constant

seeds = st.integers(0, 10_000)
shapes = st.sampled_from([(2, 2, 2), (3, 2, 3), (3, 3, 2), (4, 2, 2)])  # sources, groups, classes
N_INPUTS = 6


@dataclass(frozen=True)
class Model:
    """All triples (source, input, class), with their true probabilities as weights."""

    inputs: Tensor  # (n, k)
    abductions: Tensor  # (K, G, k)
    deduction: Tensor  # (G, C, k)
    hull: Hull
    rows: FactorizedRows

    def labels(self, abduction: Tensor) -> Tensor:
        """P(y | x) (n, C) under an abduction (G, k), by definition."""
        groups = (self.inputs @ abduction.T).softmax(dim=1)
        answers = torch.einsum("nk,gck->ngc", self.inputs, self.deduction).softmax(dim=2)
        return torch.einsum("ng,ngc->nc", groups, answers)


def make_model(seed: int, K: int, G: int, C: int) -> Model:
    inputs = with_constant(normal(seed, N_INPUTS, 2))
    abductions, deduction = normal(seed + 1, K, G, 3), 2 * normal(seed + 2, G, C, 3)
    law = normal(seed + 3, K, N_INPUTS).softmax(dim=1)
    groups = (inputs @ abductions.mT).softmax(dim=2)
    answers = torch.einsum("nk,gck->ngc", inputs, deduction).softmax(dim=2)
    labels = torch.einsum("sng,ngc->snc", groups, answers)
    weight = (law.unsqueeze(2) * labels / K).flatten()
    domain, point, y = torch.cartesian_prod(
        torch.arange(K), torch.arange(N_INPUTS), torch.arange(C)
    ).T
    Z = inputs[point]
    hull = fit_hull(abductions, Z, weight)
    rows = factorize_rows(hull, abductions @ Z.T, deduction @ Z.T, y, weight, domain)
    return Model(inputs, abductions, deduction, hull, rows)


@given(seeds, shapes)
def test_sources_own_labels_become_those_of_the_factorized_target(
    seed: int, shape: tuple[int, int, int]
) -> None:
    model = make_model(seed, *shape)
    z = 2 * normal(seed + 4, len(model.hull.directions))
    target = torch.tensordot(model.hull.coefficients(z), model.abductions, dims=1)
    joint = model.rows.weights(z).reshape(shape[0], N_INPUTS, -1).sum(dim=0)
    assert float(joint.sum()) == pytest.approx(1)
    found = joint / joint.sum(dim=1, keepdim=True)
    assert torch.allclose(found, model.labels(target), atol=1e-9)


@given(seeds, shapes)
def test_the_target_of_a_sources_coordinates_has_its_labels(
    seed: int, shape: tuple[int, int, int]
) -> None:
    model = make_model(seed, *shape)
    for z, abduction in zip(model.hull.sources, model.abductions, strict=True):
        found = model.rows.at(z)[0].T.reshape(shape[0], N_INPUTS, -1, shape[2])[0, :, 0].exp()
        assert torch.allclose(found, model.labels(abduction), atol=1e-8)
    assert torch.allclose(
        model.rows.source_losses(), -model.rows.own.gather(0, model.rows.y[None])[0]
    )


@given(seeds, shapes, st.sampled_from(["risk", "regret"]), st.sampled_from([0.0, 1.6]))
def test_gradient(
    seed: int, shape: tuple[int, int, int], objective: Objective, errors: float
) -> None:
    model = make_model(seed, *shape)
    loss = normal(seed + 5, len(model.rows.y)).exp()

    def at(z: np.ndarray) -> tuple[float, Tensor]:
        return _value_and_gradient(model.rows, loss, torch.from_numpy(z), objective, errors)

    z = normal(seed + 4, len(model.hull.directions)).numpy()
    assert np.allclose(at(z)[1], approx_fprime(z, lambda point: at(point)[0], 1e-6), atol=1e-5)


@settings(max_examples=8)
@given(st.integers(0, 100), st.sampled_from([(2, 2, 2), (3, 2, 2)]), st.sampled_from([0.5, 4.0]))
def test_attacks_are_no_milder_than_a_grid(
    seed: int, shape: tuple[int, int, int], radius: float
) -> None:
    model = make_model(seed, *shape)
    losses = normal(seed + 5, shape[2], len(model.rows.y)).exp()
    loss = losses.gather(0, model.rows.y[None])[0]
    m = len(model.hull.directions)
    line = torch.linspace(-radius, radius, 25, dtype=torch.float64)
    grid = [z for z in torch.cartesian_prod(*[line] * m).reshape(-1, m) if z.norm() <= radius]
    found = attack(model.rows, loss, radius)
    assert found.value >= max(float(model.rows.weights(z) @ loss) for z in grid) - 1e-4
    assert found.source is not None or float(found.z.norm()) <= radius * (1 + 1e-9)
    weight = model.rows.log_weight.exp()
    share = attack_keeping_inputs(model.rows, losses, radius)
    expected = [float(weight @ (model.rows.at(z)[0].exp() * losses).sum(dim=0)) for z in grid]
    assert float(weight @ (share * losses).sum(dim=0)) >= max(expected) - 1e-4


def test_rows_are_taken_together() -> None:
    rows = make_model(0, 3, 2, 2).rows
    kept = torch.tensor([1, 4, 7])
    z = normal(1, 2)
    assert torch.equal(rows.take(kept).at(z)[0], rows.at(z)[0][:, kept])
    assert torch.equal(rows.take(kept).own, rows.own[:, kept])
