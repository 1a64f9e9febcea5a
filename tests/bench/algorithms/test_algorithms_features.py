"""The algorithms that act on features: CORAL, MMD and RSC."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from regraft.bench.algorithms.alignment import pair_difference
from tests.helpers.small_tasks import check_step, draw_batch, gradients, make


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def coral_distance(a: Tensor, b: Tensor) -> Tensor:
    means = (a.mean(0) - b.mean(0)) ** 2
    return means.mean() + ((torch.cov(a.T) - torch.cov(b.T)) ** 2).mean()


def mmd_distance(a: Tensor, b: Tensor) -> Tensor:
    def kernel(p: Tensor, q: Tensor) -> Tensor:
        distances = ((p[:, None] - q[None]) ** 2).sum(-1)
        return sum(torch.exp(-(10.0**k) * distances).mean() for k in range(-3, 4))

    return kernel(a, a) + kernel(b, b) - 2 * kernel(a, b)


DISTANCES = {"CORAL": coral_distance, "MMD": mmd_distance}
alignments = pytest.mark.parametrize("name", DISTANCES)


@alignments
@pytest.mark.parametrize("n_domains", [2, 3, 4])
def test_penalty_is_the_mean_over_pairs(name: str, n_domains: int) -> None:
    features = torch.randn(n_domains, 7, 5, dtype=torch.double)
    features[0] *= 0.1  # near enough that the narrow kernels matter
    pairs = [DISTANCES[name](a, b) for a, b in combinations(features, 2)]
    expected = torch.stack(pairs).mean()
    torch.testing.assert_close(make(name, n_domains).penalty(features), expected)


@alignments
def test_only_different_domains_cost_something(name: str) -> None:
    features = torch.randn(1, 9, 5, dtype=torch.double)
    algorithm = make(name, 3)
    for some in (features, features.expand(3, -1, -1), features[:, torch.randperm(9)]):
        assert float(algorithm.penalty(some)) == pytest.approx(0, abs=1e-12)
    features = torch.randn(2, 9, 5)
    features[1] += 2
    assert float(make(name).penalty(features)) > 0.1


@alignments
def test_step_goes_down_loss_and_penalty(name: str) -> None:
    """In double precision: the narrowest kernel multiplies rounding errors by a thousand."""
    x, y = draw_batch(3)
    x = x.double()
    algorithm, reference = make(name, 3, mmd_gamma=2.0).double(), make("ERM", 3).double()
    features = [reference.featurizer(rows) for rows in x]
    distances = [DISTANCES[name](a, b) for a, b in combinations(features, 2)]
    penalty = torch.stack(distances).mean()
    loss = reference.losses(x, y).mean()
    (loss + 2 * penalty).backward()
    logged = algorithm.update(0, x, y)
    # What is logged as the loss has no penalty in it, as in DomainBed.
    torch.testing.assert_close(logged, {"loss": loss.detach(), "penalty": penalty.detach()})
    torch.testing.assert_close(gradients(algorithm), gradients(reference))


@alignments
def test_penalty_falls(name: str) -> None:
    x, y = draw_batch(b=16)
    x[1] += 1
    algorithm = make(name, lr=0.01, mmd_gamma=10.0)
    penalties = [float(algorithm.update(step, x, y)["penalty"]) for step in range(60)]
    assert penalties[-1] < penalties[0] / 2


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=5))
def test_pair_difference_of_numbers(values: list[float]) -> None:
    expected = np.mean([(a - b) ** 2 for a, b in combinations(values, 2)])
    tensor = torch.tensor(values, dtype=torch.double)
    assert float(pair_difference(tensor)) == pytest.approx(expected, abs=1e-9)


def kept_by_numpy(algorithm: Any, features: Tensor, y: Tensor) -> np.ndarray:
    """Row by row, with NumPy's percentiles."""
    f_share, b_share = (algorithm.hparams[f"rsc_{kind}_drop_factor"] for kind in "fb")
    weights = algorithm.classifier.weight.detach().numpy()  # the gradient, as it is linear
    weak = np.stack(
        [weights[k] < np.percentile(weights[k], 100 * (1 - f_share)) for k in y.tolist()]
    )

    def confidence(rows: Tensor) -> np.ndarray:
        shares = algorithm.classifier(rows).softmax(1).detach().numpy()
        return shares[np.arange(len(y)), y]

    harm = confidence(features) - confidence(features * torch.from_numpy(weak))
    return weak | (harm < np.percentile(harm, 100 * (1 - b_share)))[:, None]


@pytest.mark.parametrize(
    ("f_share", "b_share"), [(1 / 3, 1 / 3), (0.5, 0.1), (0.0, 0.5), (0.0, 0.0)]
)
def test_rsc_keeps_what_percentiles_say(f_share: float, b_share: float) -> None:
    hparams = {"rsc_f_drop_factor": f_share, "rsc_b_drop_factor": b_share}
    algorithm = make("RSC", n_classes=3, featurizer_width=10, **hparams)
    features, y = torch.rand(20, 10), torch.arange(20) % 3
    kept = algorithm.kept(features, y)
    assert np.array_equal(kept.numpy(), kept_by_numpy(algorithm, features, y))
    assert not kept.all()


def test_rsc_goes_down_the_loss_on_muted_features_of_which_one_is_least() -> None:
    """The thresholds are then the maxima, which are not below themselves."""
    algorithm = make("RSC", rsc_f_drop_factor=0.0, rsc_b_drop_factor=0.0)
    kept = algorithm.kept(torch.rand(12, 8), torch.zeros(12, dtype=torch.long))
    assert int((~kept).sum()) == 1
    assert int((~kept).nonzero()[0, 1]) == int(algorithm.classifier.weight[0].argmax())
    x, y = draw_batch()
    algorithm, reference = make("RSC"), make("RSC")
    features = reference.featurizer(x.flatten(0, 1))
    kept = torch.from_numpy(kept_by_numpy(reference, features, y.flatten()))
    loss = functional.cross_entropy(reference.classifier(features * kept), y.flatten())
    check_step(algorithm, reference, {"loss": loss}, (x, y))
    # Predictions are with all features.
    assert torch.equal(make("RSC").predict(x[0]), make("ERM").predict(x[0]))
