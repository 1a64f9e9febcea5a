"""The algorithms that pair domains at random: Mixup and MLDG."""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from regraft.bench.algorithms.mixup import draw_shares
from regraft.bench.algorithms.mldg import meta_pairs
from tests.helpers.small_tasks import assert_same, check_step, draw_batch, gradients, make, snapshot


def constant_batch(n_domains: int) -> tuple[torch.Tensor, torch.Tensor]:
    """All rows of domain k are k."""
    x = torch.arange(float(n_domains)).view(-1, 1, 1).expand(-1, 4, 6).contiguous()
    return x, torch.zeros(n_domains, 4, dtype=torch.long)


def blends(algorithm: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The rows that the network sees in one step, by domain."""
    seen: list[torch.Tensor] = []
    hook = algorithm.featurizer.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    algorithm.update(0, x, y)
    hook.remove()
    return seen[0].view_as(x)


def test_mixup_blends_each_domain_into_one_other_anew_each_time() -> None:
    """Domains 0, 1 and 3 as the numbers themselves: every blend lies between two of them."""
    x, y = constant_batch(3)
    x[2] = 3
    algorithm = make("Mixup", 3, mixup_alpha=1e6)  # all shares are one half
    for _ in range(5):
        seen = blends(algorithm, x, y)[:, 0, 0]
        expected = torch.tensor([0.5, 1.5, 2.0])
        torch.testing.assert_close(seen.sort().values, expected, atol=0.02, rtol=0)
    algorithm = make("Mixup", 3, mixup_alpha=1.0)
    x, y = constant_batch(3)
    draws = [tuple(blends(algorithm, x, y)[:, 0, 0].tolist()) for _ in range(10)]
    assert len({share for draw in draws for share in draw}) == 30


@pytest.mark.parametrize("alpha", [0.1, 0.2, 1.0, 10.0])
def test_mixup_draws_from_the_beta_distribution(alpha: float) -> None:
    """Mean 1/2 and variance 1 / (4 (2 alpha + 1)), each within five standard errors."""
    n = 20_000
    shares = draw_shares(alpha, n, torch.device("cpu"), torch.Generator().manual_seed(0))
    assert ((shares >= 0) & (shares <= 1)).all()
    variance = 1 / (4 * (2 * alpha + 1))
    assert abs(shares.mean() - 0.5) < 5 * (variance / n) ** 0.5
    squares = (shares - 0.5) ** 2
    assert abs(squares.mean() - variance) < 5 * squares.std() / n**0.5


def test_mixup_of_a_tiny_alpha_or_of_equal_domains() -> None:
    shares = draw_shares(0.01, 1000, torch.device("cpu"), torch.Generator().manual_seed(0))
    assert torch.isfinite(shares).all()
    assert ((shares < 0.01) | (shares > 0.99)).double().mean() > 0.9
    # Rows blended with themselves are themselves.
    x, y = draw_batch(1)
    x, y = x.expand(3, -1, -1), y.expand(3, -1)
    mixup, erm = make("Mixup", 3), make("ERM", 3)
    torch.testing.assert_close(mixup.update(0, x, y), erm.update(0, x, y))
    torch.testing.assert_close(gradients(mixup), gradients(erm))


def test_mixup_blends_rows_and_losses_by_the_same_shares() -> None:
    """Pair by pair, with the same draws made again."""
    x, y = draw_batch(3, n_classes=3)
    algorithm, reference = (make("Mixup", 3, n_classes=3, mixup_alpha=1.0) for _ in range(2))
    ring = torch.rand(3, generator=reference.generator).argsort().tolist()
    shares = draw_shares(1.0, 3, torch.device("cpu"), reference.generator).tolist()
    total = torch.zeros(())
    for i, j, share in zip(ring, ring[1:] + ring[:1], shares, strict=True):
        logits = reference.predict(share * x[i] + (1 - share) * x[j])
        total = total + share * functional.cross_entropy(logits, y[i])
        total = total + (1 - share) * functional.cross_entropy(logits, y[j])
    check_step(algorithm, reference, {"loss": total / 3}, (x, y))


@pytest.mark.parametrize(
    ("n_domains", "n_meta_test", "compat", "expected"),
    [
        (3, 1, False, [(0, 2), (1, 2)]),
        (3, 2, False, [(0, 1)]),
        (5, 2, False, [(0, 3), (1, 4), (2, 3)]),
        (2, 1, True, [(0, 1)]),
        (2, 2, False, [(0, 1)]),  # as with one domain for tests
        (1, 2, False, [(0, 0)]),
        (2, 2, True, []),
        (1, 2, True, []),
    ],
)
def test_pairs_of_domains(
    n_domains: int, n_meta_test: int, compat: bool, expected: list[tuple[int, int]]
) -> None:
    assert meta_pairs(n_domains, n_meta_test, compat) == expected


def reference_gradient(
    algorithm: Any, pairs: list[tuple[int, int]], x: torch.Tensor, y: torch.Tensor
) -> tuple[list[torch.Tensor], float]:
    """By copies of the network and optimizers of their own."""
    network = nn.Sequential(algorithm.featurizer, algorithm.classifier)
    hparams, loss = algorithm.hparams, 0.0
    total = [torch.zeros_like(p) for p in network.parameters()]
    for i, j in pairs:
        clone = copy.deepcopy(network)
        optimizer = torch.optim.Adam(
            clone.parameters(), lr=hparams["lr"], weight_decay=hparams["weight_decay"]
        )
        inner = functional.cross_entropy(clone(x[i]), y[i])
        first = torch.autograd.grad(inner, list(clone.parameters()))
        for parameter, g in zip(clone.parameters(), first, strict=True):
            parameter.grad = g.clone()
        optimizer.step()
        outer = functional.cross_entropy(clone(x[j]), y[j])
        second = torch.autograd.grad(outer, list(clone.parameters()))
        for t, f, s in zip(total, first, second, strict=True):
            t += (f + hparams["mldg_beta"] * s) / len(x)
        loss += (inner + hparams["mldg_beta"] * outer).item() / len(x)
    return total, loss


@pytest.mark.parametrize("n_meta_test", [1, 2])
def test_mldg_equals_a_step_of_copies(n_meta_test: int) -> None:
    hparams = {"n_meta_test": n_meta_test, "mldg_beta": 3.0, "lr": 0.05, "weight_decay": 0.1}
    algorithm = make("MLDG", 3, **hparams)
    x, y = draw_batch(3)
    order = torch.rand(3, generator=torch.Generator().manual_seed(0)).argsort()
    pairs = {1: [(0, 2), (1, 2)], 2: [(0, 1)]}[n_meta_test]
    expected, loss = reference_gradient(algorithm, pairs, x[order], y[order])
    before = [p.clone() for p in algorithm.parameters()]
    logged = algorithm.update(0, x, y)
    assert float(logged["loss"]) == pytest.approx(loss)
    for parameter, gradient, old in zip(algorithm.parameters(), expected, before, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)
        decayed = gradient + 0.1 * old
        step = 0.05 * decayed / (decayed.abs() + 1e-8)
        torch.testing.assert_close(parameter, old - step, atol=1e-5, rtol=1e-4)


def test_mldg_adds_up_gradients_and_tests_in_every_domain_in_turn() -> None:
    """Two domains: half the gradient in one and beta halves of that in the other."""
    x, y = draw_batch(1)
    x, y = x.expand(2, -1, -1), y.expand(2, -1)
    algorithm, erm = make("MLDG", lr=1e-9, mldg_beta=4.0), make("ERM")
    algorithm.update(0, x, y)
    erm.update(0, x, y)
    for name, gradient in gradients(erm).items():
        torch.testing.assert_close(gradients(algorithm)[name], 2.5 * gradient)
    # With three domains and two for tests, the loss is that of one of six ordered pairs.
    algorithm = make("MLDG", 3, lr=0.0)
    x, y = draw_batch(3)
    losses = {round(float(algorithm.update(0, x, y)["loss"]), 6) for _ in range(40)}
    values = algorithm.losses(x, y).tolist()
    pairs = [(0, 1), (0, 2), (1, 2)]
    assert losses == {round((values[i] + values[j]) / 3, 6) for i, j in pairs}


def test_mldg_in_domainbed() -> None:
    """Its default leaves no domain to step on."""
    algorithm = make("MLDG", compat=True)
    before = {name: value.clone() for name, value in algorithm.named_parameters()}
    for step in range(3):
        assert float(algorithm.update(step, *draw_batch())["loss"]) == 0
    assert_same(before, {name: value.detach() for name, value in algorithm.named_parameters()})
    repaired = make("MLDG")
    repaired.update(0, *draw_batch())
    assert not any(torch.equal(value, before[name]) for name, value in repaired.named_parameters())
    states = []
    for compat in (False, True):
        algorithm = make("MLDG", compat=compat, n_meta_test=1)
        algorithm.update(0, *draw_batch())
        states.append(snapshot(algorithm))
    assert_same(*states)


@pytest.mark.parametrize("compat", [False, True])
def test_mldg_updates_running_statistics_unless_compatible(compat: bool) -> None:
    algorithm = make("MLDG", 3, compat=compat)
    norm = nn.BatchNorm1d(8)
    algorithm.featurizer.append(norm)
    algorithm.reset()
    algorithm.update(0, *draw_batch(3))
    assert int(norm.num_batches_tracked) == (0 if compat else 2)
    assert torch.equal(norm.running_mean, torch.zeros(8)) == compat
    assert not torch.equal(norm.weight, torch.ones(8))
