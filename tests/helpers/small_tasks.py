"""Algorithms of the protocol on problems so small that they take no time."""

from typing import Any

import torch
from torch import Tensor

from regraft.bench.algorithms import Algorithm, Task, find_algorithm
from regraft.bench.protocol.spaces import draw_configuration

VECTORS, IMAGES = (6,), (2, 28, 28)
TWO_PHASES = ("CRO", "CROLatent", "JTT", "EIIL", "XRM")  # all with one record a run
Batch = tuple[Tensor, Tensor]


def make(
    name: str,
    n_domains: int = 2,
    *,
    seed: int = 0,
    input_shape: tuple[int, ...] = VECTORS,
    compat: bool = False,
    n_classes: int = 2,
    **hparams: Any,
) -> Any:
    """The algorithm with default hyperparameters except ``hparams``; ``seed`` is of all draws."""
    entry = find_algorithm(name)
    group = "features" if len(input_shape) == 1 else "small images"
    configuration = draw_configuration(entry.space(group), 0, 0)
    configuration.update({"featurizer_width": 8, **hparams})
    task = Task(input_shape, n_classes, n_domains, torch.device("cpu"), compat)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return entry.make(task, configuration, torch.Generator().manual_seed(seed))


def draw_batch(
    n_domains: int = 2,
    b: int = 8,
    *,
    seed: int = 0,
    input_shape: tuple[int, ...] = VECTORS,
    n_classes: int = 2,
) -> Batch:
    """Rows whose class is the largest of their first entries, shifted by domain elsewhere."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n_domains, b, *input_shape, generator=generator)
    y = torch.arange(n_domains * b).view(n_domains, b) % n_classes
    rows = x.view(n_domains, b, -1)
    rows[..., :n_classes] = 2 * torch.nn.functional.one_hot(y, n_classes) - 1
    rows[..., -1] += torch.arange(n_domains).view(-1, 1)
    return x, y


def snapshot(algorithm: Algorithm) -> dict[str, Tensor]:
    """The state as it is now."""
    return {name: tensor.clone() for name, tensor in algorithm.state().items()}


def gradients(algorithm: Algorithm) -> dict[str, Tensor]:
    """The gradients that the last step went down."""
    return {
        name: parameter.grad.clone()
        for name, parameter in algorithm.named_parameters()
        if parameter.grad is not None
    }


def assert_same(left: dict[str, Tensor], right: dict[str, Tensor]) -> None:
    """Bit by bit."""
    assert left.keys() == right.keys()
    assert [name for name in left if not torch.equal(left[name], right[name])] == []


def moved_parts(algorithm: Algorithm, before: dict[str, Tensor]) -> set[str]:
    """The submodules of which parameters moved since ``before``, which must be all of theirs."""
    parts: dict[str, set[bool]] = {}
    for name, value in algorithm.named_parameters():
        parts.setdefault(name.split(".")[0], set()).add(not value.equal(before[name]))
    assert all(len(verdicts) == 1 for verdicts in parts.values())
    return {part for part, verdicts in parts.items() if verdicts == {True}}


def check_step(
    algorithm: Algorithm,
    reference: Algorithm,
    expected: dict[str, Tensor],
    batch: Batch,
    step: int = 0,
    **tolerance: float,
) -> None:
    """A step logs what is expected, and goes down the loss as ``reference`` computed it."""
    expected["loss"].backward()
    logged = algorithm.update(step, *batch)
    torch.testing.assert_close(logged, {name: value.detach() for name, value in expected.items()})
    torch.testing.assert_close(gradients(algorithm), gradients(reference), **tolerance)
