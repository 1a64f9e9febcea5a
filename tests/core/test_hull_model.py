"""The hull's targets against the truth, in finite models where every probability is known.

Each source has inputs of its own, and labels that follow its own head.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regraft.core.evidence import HeldOutRows, measure
from regraft.core.hull import Hull, attack, fit_hull, tilt_rows
from regraft.core.target_rows import TiltedRows
from tests.helpers.problems import normal, with_constant

seeds = st.integers(0, 10_000)
shapes = st.sampled_from([(2, 2), (2, 4), (3, 3), (5, 2)])
N_INPUTS = 6


@dataclass(frozen=True)
class Model:
    """All triples (source, input, class), with their true probabilities as weights."""

    inputs: Tensor  # (n, k)
    law: Tensor  # (K, n) of the inputs in each source
    labels: Tensor  # (K, n, C) P_s(y | x)
    hull: Hull
    rows: TiltedRows

    def joint(self, weight: Tensor) -> Tensor:
        """Weights (n, C) of inputs with labels, over all sources."""
        return weight.reshape(self.labels.shape).sum(dim=0)


def make_model(seed: int, K: int, C: int) -> Model:
    inputs = with_constant(normal(seed, N_INPUTS, 2))
    heads = normal(seed + 1, K, C, 3)
    heads = heads - heads.mean(dim=1, keepdim=True)
    law = normal(seed + 2, K, N_INPUTS).softmax(dim=1)
    labels = (inputs @ heads.mT).softmax(dim=2)
    weight = (law.unsqueeze(2) * labels / K).flatten()
    domain, point, y = torch.cartesian_prod(
        torch.arange(K), torch.arange(N_INPUTS), torch.arange(C)
    ).T
    hull = fit_hull(heads, inputs[point], weight)
    rows = tilt_rows(hull, heads, inputs[point], y, weight, domain)
    return Model(inputs, law, labels, hull, rows)


def conditional(joint: Tensor) -> Tensor:
    return joint / joint.sum(dim=1, keepdim=True)


@given(seeds, shapes)
def test_sources_own_labels_become_those_of_the_target(seed: int, shape: tuple[int, int]) -> None:
    """Whatever the sources' inputs."""
    model = make_model(seed, *shape)
    z = 2 * normal(seed + 3, len(model.hull.directions))
    truth = (model.inputs @ model.hull.head(z).mT).softmax(dim=1)
    joint = model.joint(model.rows.weights(z))
    assert float(joint.sum()) == pytest.approx(1)
    assert torch.allclose(conditional(joint), truth, atol=1e-9)


@given(seeds, shapes)
def test_the_law_of_the_inputs_moves_as_stated(seed: int, shape: tuple[int, int]) -> None:
    """It is weighed by the mean weight of the labels."""
    model = make_model(seed, *shape)
    z = 2 * normal(seed + 3, len(model.hull.directions))
    tilts = torch.stack([model.hull.head(z) - model.hull.head(own) for own in model.hull.sources])
    share = (model.inputs @ tilts.mT).softmax(dim=2)  # (K, n, C), of at most one
    moved = (model.law * (model.labels * share).sum(dim=2)).sum(dim=0)
    found = model.joint(model.rows.weights(z)).sum(dim=1)
    assert torch.allclose(found, moved / moved.sum(), atol=1e-9)


def test_a_tilt_from_the_mean_head_misses_the_target() -> None:
    """Pooled labels are an arithmetic mean of the sources', the mean head is a geometric one."""
    missed = []
    for seed in range(5):
        model = make_model(seed, 2, 2)
        z = torch.tensor([2.0], dtype=torch.float64)
        truth = (model.inputs @ model.hull.head(z).mT).softmax(dim=1)
        from_mean = replace(model.rows, own=model.rows.center)
        error = conditional(model.joint(from_mean.weights(z))) - truth
        missed.append(float(error.abs().max()))
    assert min(missed) > 0.005 and max(missed) > 0.05


@given(seeds, shapes)
def test_no_source_is_worse_than_the_worst_target(seed: int, shape: tuple[int, int]) -> None:
    """Even where the radius does not reach the sources."""
    model = make_model(seed, *shape)
    loss = normal(seed + 4, len(model.rows.y)).exp()
    worst = attack(model.rows, loss, radius=0.01).value
    for s in range(shape[0]):
        assert float(model.rows.source_weights(s) @ loss) <= worst + 1e-12


def test_the_largest_of_pointwise_bounds_covers_the_worst_target() -> None:
    """The population's worst target is one target: where its own bound holds, the largest does."""
    model = make_model(3, 2, 2)
    probability = model.rows.log_weight.exp()
    loss = model.rows.own_losses(torch.tensor([-1.5], dtype=torch.float64))
    grid = torch.linspace(-2, 2, 9, dtype=torch.float64).unsqueeze(1)
    factors = torch.stack([model.rows.weights(z) / probability for z in grid])
    worst = float((factors * probability @ loss).max())
    rng = np.random.default_rng(0)
    misses = 0
    for _ in range(200):
        drawn = torch.from_numpy(rng.choice(len(loss), size=300, p=probability.numpy()))
        held_out = HeldOutRows(loss[drawn], torch.zeros(300, dtype=torch.float64))
        weights = factors[:, drawn] / factors[:, drawn].sum(dim=1, keepdim=True)
        bounds = [measure("", weight, held_out).risk_bound for weight in weights]
        misses += max(bounds) < worst
    assert misses <= 16  # 5 % of 200, and two standard errors


def test_with_inputs_kept_weights_miss_too_often_and_expected_labels_do_not() -> None:
    """Ratios of probabilities have no bound, and a sample may lack the rows that carry them.

    The mean loss over the labels that the target's head expects has the same population value.
    """
    size, zero = 300, torch.zeros(300, dtype=torch.float64)
    level = torch.full_like(zero, 1 / size)
    rng = np.random.default_rng(0)
    by_weight, by_label, draws = 0, 0, 40
    for seed in range(12):
        model = make_model(seed, 2, 2)
        rows, probability = model.rows, model.rows.log_weight.exp()
        z = torch.tensor([3.0], dtype=torch.float64)
        # softmax(W x)_y / softmax(W_s x)_y turns the labels and leaves the inputs.
        factor = (rows.source_losses() - rows.own_losses(z)).exp()
        assert torch.allclose(
            model.joint(factor * probability).sum(dim=1), model.law.mean(dim=0), atol=1e-9
        )
        loss = rows.own_losses(-z / 2)
        share = (model.inputs @ model.hull.head(z).mT).softmax(dim=1).repeat(2, 1)
        expected = (loss.reshape(-1, 2) * share).sum(dim=1).repeat_interleave(2)
        truth = float(factor * probability @ loss)
        assert float(probability @ expected) == pytest.approx(truth)
        for _ in range(draws):
            drawn = torch.from_numpy(rng.choice(len(loss), size=size, p=probability.numpy()))
            weight = factor[drawn] / factor[drawn].sum()
            weighted = measure("", weight, HeldOutRows(loss[drawn], zero))
            plain = measure("", level, HeldOutRows(expected[drawn], zero))
            by_weight += weighted.risk_bound < truth
            by_label += plain.risk_bound < truth
    assert by_weight > 0.1 * 12 * draws
    assert by_label < 0.08 * 12 * draws
