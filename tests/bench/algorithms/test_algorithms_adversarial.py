"""DANN and CDANN: whose step it is, what it moves, and the discriminator's loss by hand."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from regraft.bench.algorithms.dann import DANN, DISCRIMINATOR, NETWORK
from tests.helpers import small_tasks
from tests.helpers.small_tasks import assert_same, moved_parts, snapshot

BOTH = pytest.mark.parametrize("name", ["DANN", "CDANN"])
K, B, D, N_CLASSES = 3, 8, 5, 3
# With one step of the discriminator for each of the network, the network's are the even ones.
NETWORK_STEP, DISCRIMINATOR_STEP = 0, 1
SIZES = {"input_shape": (D,), "featurizer_width": 64, "mlp_width": 16}
make = partial(small_tasks.make, n_domains=K, n_classes=N_CLASSES, **SIZES)


def batch(seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(K, B, D, generator=generator)
    return x, torch.randint(N_CLASSES, (K, B), generator=generator)


def row_losses(model: DANN, inputs: Tensor) -> Tensor:
    domains = torch.tensor([k for k in range(K) for _ in range(B)])
    return -functional.log_softmax(model.discriminator(inputs), dim=1)[range(K * B), domains]


@pytest.mark.parametrize(
    ("turns", "letters"), [(1, "NDNDND"), (2, "DNDDNDDN"), (3, "DDNDDDNDDDN"), (7, "DDDDDDND")]
)
def test_turns_are_counted_from_one(turns: int, letters: str) -> None:
    model = make("DANN", d_steps_per_g_step=turns)
    expected = [{"N": NETWORK, "D": DISCRIMINATOR}[letter] for letter in letters]
    assert [model.variant(step) for step in range(len(letters))] == expected


@BOTH
@pytest.mark.parametrize("penalty", [0.0, 2.0])
def test_a_step_moves_all_that_is_its_own_and_nothing_else(name: str, penalty: float) -> None:
    model = make(name, grad_penalty=penalty, weight_decay_d=0.1, weight_decay_g=0.1)
    own = {"discriminator", "class_embeddings"} if name == "CDANN" else {"discriminator"}
    for _ in range(2):
        for step, parts in enumerate(({"featurizer", "classifier"}, own)):
            before = snapshot(model)
            model.update(step, *batch())
            assert moved_parts(model, before) == parts


@BOTH
def test_no_gradient_leaks_from_one_step_into_the_next(name: str) -> None:
    """A model that takes every step with fresh gradients ends at the same weights."""
    changes: dict[str, Any] = {"grad_penalty": 1.0, "mlp_dropout": 0.5}
    kept, fresh = make(name, **changes), make(name, **changes)
    for step in range(6):
        before = fresh.state()
        fresh = make(name, **changes)
        fresh.load_state(before)
        for model in (kept, fresh):
            model.update(step, *batch(step))
    assert_same(dict(kept.named_parameters()), dict(fresh.named_parameters()))


@BOTH
def test_optimizers_have_their_own_hyperparameters(name: str) -> None:
    model = make(
        name, lr_g=0.1, lr_d=0.2, weight_decay_g=0.3, weight_decay_d=0.4, beta1=0.0, lr=9.0
    )
    settings = {
        key: [group[setting] for setting in ("lr", "weight_decay", "betas")]
        for key, optimizer in model.optimizers.items()
        for group in optimizer.param_groups
    }
    assert settings == {NETWORK: [0.1, 0.3, (0.0, 0.9)], DISCRIMINATOR: [0.2, 0.4, (0.0, 0.9)]}


def test_the_discriminators_lose_by_row_and_by_class() -> None:
    model, (x, y) = make("DANN"), batch()
    features = model.featurizer(x.flatten(0, 1))
    torch.testing.assert_close(
        model.discrimination(features, y), row_losses(model, features).mean()
    )
    # Classes of 5, 2, 1 and no rows.
    y = torch.tensor([0, 0, 1, 0, 2, 1, 0, 0])
    losses = torch.arange(1.0, 9.0)
    expected = (1 + 2 + 4 + 7 + 8) / (5 * 4) + (3 + 6) / (2 * 4) + 5 / (1 * 4)
    assert make("CDANN", n_classes=4).mean(losses, y).item() == pytest.approx(expected)
    # DomainBed counts classes up to the largest in the batch: three.
    compatible = make("CDANN", n_classes=4, compat=True).mean(losses, y).item()
    assert compatible == pytest.approx(expected * 4 / 3)
    model, (x, y) = make("CDANN"), batch()
    features, rows = model.featurizer(x.flatten(0, 1)), y.flatten()
    losses = row_losses(model, features + model.class_embeddings.weight[rows])
    weights = torch.tensor([1 / (N_CLASSES * (rows == row).sum().item()) for row in rows])
    torch.testing.assert_close(model.discrimination(features, y), (weights * losses).sum())


@BOTH
def test_penalty_is_the_mean_squared_slope_of_each_rows_loss(name: str) -> None:
    model, plain, (x, y) = make(name, grad_penalty=2.5), make(name), batch()
    features = model.featurizer(x.flatten(0, 1)).detach().requires_grad_()
    inputs = model.condition(features, y.flatten())
    slopes = []
    for row in range(K * B):
        loss = row_losses(model, inputs)[row]
        slopes.append(torch.autograd.grad(loss, inputs, retain_graph=True)[0][row])
    penalty = torch.stack([slope.dot(slope) for slope in slopes]).mean()
    assert penalty > 0
    expected = plain.discrimination(features, y) + 2.5 * penalty
    torch.testing.assert_close(model.discrimination(features, y), expected)


@BOTH
@pytest.mark.parametrize("penalty", [0.0, 2.0])
def test_losses_that_the_steps_report(name: str, penalty: float) -> None:
    changes: dict[str, Any] = {"grad_penalty": penalty, "lambda": 0.3}
    model, (x, y) = make(name, **changes), batch()
    features = model.featurizer(x.flatten(0, 1))
    discrimination = model.discrimination(features, y)
    wrong = functional.cross_entropy(model.predict(x.flatten(0, 1)), y.flatten())
    expected = {
        NETWORK_STEP: {"gen_loss": (wrong - 0.3 * discrimination).detach()},
        DISCRIMINATOR_STEP: {"disc_loss": discrimination.detach()},
    }
    for step, losses in expected.items():
        torch.testing.assert_close(make(name, **changes).update(step, x, y), losses)


@BOTH
def test_the_penalty_flattens_the_discriminator(name: str) -> None:
    """Trained on the same features, it is less steep with a penalty than without."""

    def steepness(penalty: float) -> Tensor:
        model, (x, y) = make(name, grad_penalty=penalty, lr_d=0.01), batch()
        x = x + torch.arange(float(K))[:, None, None]
        for _ in range(30):
            model.update(DISCRIMINATOR_STEP, x, y)
        features = model.featurizer(x.flatten(0, 1)).detach().requires_grad_()
        loss = row_losses(model, model.condition(features, y.flatten())).sum()
        return torch.autograd.grad(loss, features)[0].square().sum(dim=1).mean()

    assert steepness(10.0) < steepness(0.0)


@BOTH
def test_the_network_hides_what_the_discriminator_learns(name: str) -> None:
    """Of domains far apart the discriminator knows all, unless the features work against it."""

    def loss(weight: float) -> float:
        model, (x, y) = make(name, lr_d=0.01, lr_g=0.01, **{"lambda": weight}), batch()
        x = x + 2 * torch.arange(float(K))[:, None, None]
        for step in range(120):
            model.update(step, x, y)
        return model.discrimination(model.featurizer(x.flatten(0, 1)), y).item()

    assert loss(0.0) < 0.1 < loss(10.0)
