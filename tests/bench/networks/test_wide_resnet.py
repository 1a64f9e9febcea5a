"""The Wide ResNet against the same network written down as functions, and LARS as a loop."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from regraft.bench.networks.domainbed import make_featurizer
from regraft.bench.networks.lars import LARS
from tests.helpers.small_tasks import draw_batch, make


def slow_features(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """Normalization by the statistics kept, one layer after the other."""

    def norm(name: str, z: Tensor) -> Tensor:
        mean, var, weight, bias = (
            state[f"{name}.{part}"][:, None, None]
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        return ((z - mean) / (var + 1e-5).sqrt() * weight + bias).clamp_min(0)

    def conv(name: str, z: Tensor, stride: int = 1, padding: int = 1) -> Tensor:
        weight, bias = state[f"{name}.weight"], state[f"{name}.bias"]
        return functional.conv2d(z, weight, bias, stride, padding)

    z = conv("conv1", x)
    for stage, stride in ((1, 1), (2, 2), (3, 2)):
        for block in (0, 1):
            name, by = f"layer{stage}.{block}", stride if block == 0 else 1
            inner = conv(f"{name}.conv1", norm(f"{name}.bn1", z))
            long = conv(f"{name}.conv2", norm(f"{name}.bn2", inner), by)
            z = long + (conv(f"{name}.shortcut.0", z, by, 0) if block == 0 else z)
    return norm("bn1", z).mean(dim=(2, 3))


def test_features() -> None:
    torch.manual_seed(0)
    network, n = make_featurizer((2, 32, 32), {}, torch.Generator())
    network.double()
    x = torch.randn(3, 2, 32, 32, dtype=torch.float64)
    network(x)  # which moves the statistics
    network.eval()
    found = network(x)
    assert found.shape == (3, n) == (3, 128)
    torch.testing.assert_close(found, slow_features(network.state_dict(), x), atol=1e-9, rtol=1e-9)


def slow_lars(weights: list[Tensor], moving: list[Tensor], lr: float, decay: float) -> None:
    for w, m in zip(weights, moving, strict=True):
        assert w.grad is not None
        change = w.grad
        if w.ndim > 1:
            change = change + decay * w.detach()
            size, length = float(w.detach().norm()), float(change.norm())
            change = change * (0.001 * size / length if size and length else 1.0)
        m.copy_(0.9 * m + change)
        w.data -= lr * m


def test_lars() -> None:
    torch.manual_seed(0)
    start = [torch.randn(4, 3), torch.randn(4), torch.zeros(2, 2)]
    mine, theirs = ([nn.Parameter(w.double().clone()) for w in start] for _ in range(2))
    optimizer = LARS(mine, lr=0.5, weight_decay=0.1)
    moving = [torch.zeros_like(w) for w in theirs]
    for step in range(4):
        for weights in (mine, theirs):
            loss = sum(((w - step) ** 3).sum() for w in weights)
            for w in weights:
                w.grad = None
            loss.backward()  # type: ignore[union-attr]
        optimizer.step()
        slow_lars(theirs, moving, 0.5, 0.1)  # type: ignore[arg-type]
        for left, right in zip(mine, theirs, strict=True):
            torch.testing.assert_close(left, right, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("linear_steps", [0, 5])
def test_erm_plus_plus_takes_lars_and_goes_on_with_it(linear_steps: int) -> None:
    hparams: dict[str, Any] = {"lars": True, "linear_steps": linear_steps, "lr": 1.0}
    first, second = make("ERMPlusPlus", **hparams), make("ERMPlusPlus", seed=1, **hparams)
    assert all(isinstance(each, LARS) for each in first.optimizers.values())
    x, y = draw_batch()
    for step in range(2):
        first.update(step, x, y)
    second.load_state({name: value.clone() for name, value in first.state().items()})
    for model in (first, second):
        model.update(2, x, y)
    left, right = first.state_dict(), second.state_dict()
    assert [name for name in left if not torch.equal(left[name], right[name])] == []
