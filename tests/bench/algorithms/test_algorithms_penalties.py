"""ERM, and the algorithms that weigh or penalize the losses of the domains: IRM, VREx, GroupDRO."""

import math

import pytest
import torch
from torch.nn import functional

from regraft.bench.algorithms.annealed_penalty import scale_slopes
from regraft.bench.algorithms.erm import domain_losses
from tests.helpers.small_tasks import assert_same, check_step, draw_batch, gradients, make, snapshot


def test_losses_by_domain_and_their_slopes() -> None:
    """Even logits lose log 2; a right logit larger by log 3 loses log 4/3."""
    logits = torch.tensor([[0.0, 0.0], [1.0, 1.0], [math.log(3), 0.0], [0.0, 0.0]])
    losses = domain_losses(logits, torch.tensor([[0, 1], [0, 1]]))
    expected = [math.log(2), (math.log(4 / 3) + math.log(2)) / 2]
    torch.testing.assert_close(losses, torch.tensor(expected))
    torch.manual_seed(0)
    logits = torch.randn(3, 7, 4, dtype=torch.double)
    y = torch.randint(4, (3, 7))
    scale = torch.ones(3, 1, requires_grad=True, dtype=torch.double)
    losses = domain_losses((logits * scale[..., None]).flatten(0, 1), y)
    (slopes,) = torch.autograd.grad(losses.sum(), scale)
    torch.testing.assert_close(scale_slopes(logits, y), slopes[:, 0])


def test_erm_goes_down_the_loss_on_all_rows_by_adam() -> None:
    x, y = draw_batch(3, b=5)
    algorithm, reference = make("ERM", 3), make("ERM", 3)
    loss = functional.cross_entropy(reference.predict(x.flatten(0, 1)), y.flatten())
    check_step(algorithm, reference, {"loss": loss}, (x, y))
    # By the learning rate, against the sign of the gradient.
    algorithm = make("ERM", lr=0.01)
    before = {name: value.clone() for name, value in algorithm.named_parameters()}
    algorithm.update(0, *draw_batch())
    for name, gradient in gradients(algorithm).items():
        moved = algorithm.get_parameter(name) - before[name]
        expected = -0.01 * gradient / (gradient.abs() + 1e-8)
        torch.testing.assert_close(moved, expected, atol=1e-6, rtol=1e-3)


def irm_penalty(algorithm: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Domain by domain, with a graph of the gradients."""
    total = torch.zeros(())
    for rows, labels in zip(x, y, strict=True):
        scale = torch.ones((), requires_grad=True)
        logits = algorithm.predict(rows) * scale
        halves = [functional.cross_entropy(logits[i::2], labels[i::2]) for i in (0, 1)]
        slopes = [torch.autograd.grad(half, scale, create_graph=True)[0] for half in halves]
        total = total + slopes[0] * slopes[1]
    return total / len(x)


@pytest.mark.parametrize("b", [8, 9])
def test_irm_goes_down_loss_and_penalty(b: int) -> None:
    x, y = draw_batch(3, b=b)
    algorithm, reference = make("IRM", 3, irm_lambda=30.0), make("IRM", 3)
    nll, penalty = reference.losses(x, y).mean(), irm_penalty(reference, x, y)
    expected = {"loss": nll + 30 * penalty, "nll": nll, "penalty": penalty}
    check_step(algorithm, reference, expected, (x, y), 500, atol=1e-5, rtol=1e-4)


def test_vrex_penalizes_the_variance_of_which_one_domain_has_none() -> None:
    x, y = draw_batch(3)
    algorithm, reference = make("VREx", 3), make("VREx", 3)
    losses = reference.losses(x, y)
    nll, penalty = losses.mean(), ((losses - losses.mean()) ** 2).sum() / 3
    expected = {"loss": nll + 10 * penalty, "nll": nll, "penalty": penalty}
    check_step(algorithm, reference, expected, (x, y), 500)
    x, y = draw_batch(1)
    x, y = x.expand(2, -1, -1), y.expand(2, -1)
    vrex, erm = make("VREx", vrex_lambda=1e4), make("ERM")
    for step in range(3):
        vrex.update(step + 500, x, y)
        erm.update(step, x, y)
    for name, value in erm.named_parameters():
        torch.testing.assert_close(vrex.get_parameter(name), value)


@pytest.mark.parametrize(("name", "prefix"), [("IRM", "irm"), ("VREx", "vrex")])
def test_annealing_changes_the_weight_and_starts_the_optimizer_over(name: str, prefix: str) -> None:
    hparams = {f"{prefix}_lambda": 70.0, f"{prefix}_penalty_anneal_iters": 2}
    algorithm, taken = make(name, **hparams), []
    variants = [algorithm.variant(step) for step in range(5)]
    assert variants == ["before", "before", "at", "after", "after"]
    for step, weight in enumerate([1.0, 1.0, 70.0, 70.0]):
        logged = algorithm.update(step, *draw_batch(seed=step))
        torch.testing.assert_close(logged["loss"], logged["nll"] + weight * logged["penalty"])
        taken.append(int(snapshot(algorithm)["optimizer.main.0.step"]))
    assert taken == [1, 2, 1, 2]
    # A run goes on across the change.
    first, second = make(name, **hparams), make(name, seed=1, **hparams)
    first.update(0, *draw_batch())
    for step in range(1, 4):
        second.load_state(snapshot(first))
        for algorithm in (first, second):
            algorithm.update(step, *draw_batch(seed=step))
        assert_same(snapshot(first), snapshot(second))


def test_with_compat_vrex_logs_the_last_domains_loss() -> None:
    x, y = draw_batch(3)
    algorithm = make("VREx", 3, compat=True)
    last = algorithm.losses(x, y)[-1].detach()
    torch.testing.assert_close(algorithm.update(0, x, y)["nll"], last)


@pytest.mark.parametrize("name", ["IB_ERM", "IB_IRM"])
def test_with_compat_bottlenecks_log_their_whole_objective_as_nll(name: str) -> None:
    x, y = draw_batch(3)
    hparams = {"ib_penalty_anneal_iters": 0, "irm_penalty_anneal_iters": 0, "ib_lambda": 2.0}
    model, faithful = make(name, 3, **hparams), make(name, 3, compat=True, **hparams)
    mean = model.losses(x, y).mean().detach()
    logged = model.update(0, x, y)
    torch.testing.assert_close(logged["nll"], mean)
    assert logged["loss"] != mean
    assert faithful.update(0, x, y)["nll"] == logged["loss"]


def test_groupdro_moves_its_weights_first_and_takes_them_as_given() -> None:
    x, y = draw_batch(3)
    algorithm = make("GroupDRO", 3, groupdro_eta=0.5)
    assert torch.equal(algorithm.q, torch.ones(3))
    losses = algorithm.losses(x, y).detach()
    q = torch.exp(0.5 * losses) / torch.exp(0.5 * losses).sum()
    logged = algorithm.update(0, x, y)
    torch.testing.assert_close(algorithm.q, q)
    torch.testing.assert_close(logged["loss"], (losses * q).sum())
    assert algorithm.q.argmax() == losses.argmax()
    # The gradient is that of the weighted loss, not of the weights.
    x, y = draw_batch()
    algorithm, reference = make("GroupDRO", groupdro_eta=5.0), make("ERM")
    algorithm.update(0, x, y)
    (reference.losses(x, y) @ algorithm.q).backward()
    torch.testing.assert_close(gradients(algorithm), gradients(reference))


def test_groupdro_attends_to_the_domain_that_does_not_learn() -> None:
    x, y = draw_batch(b=16)
    x[1], y[1] = 0, torch.arange(16) % 2  # equal rows of both classes
    algorithm = make("GroupDRO", lr=0.01, groupdro_eta=0.1)
    weights = []
    for step in range(60):
        algorithm.update(step, x, y)
        weights.append(float(algorithm.q[1]))
    assert weights[-1] > weights[30] > weights[10] > 0.5
    assert float(algorithm.q.sum()) == pytest.approx(1)
