"""Base of the protocol's algorithms: steps on minibatches of several domains, and predictions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regraft.bench.networks.optimizer_state import (
    load_optimizer_state,
    optimizer_state,
    parameters_of_optimizer,
)
from regraft.bench.protocol.spaces import Group, Hparam, Space, common_space

OPTIMIZER, GENERATOR = "optimizer", "generator"


@dataclass(frozen=True)
class Task:
    """Facts about the data that an algorithm needs before it sees any."""

    input_shape: tuple[int, ...]
    n_classes: int
    n_domains: int  # number of training domains
    device: torch.device
    compat: bool = False  # keep DomainBed's known faults
    seed: int = 0  # of the run
    per_domain: bool = False  # pass domains through the network one by one, where DomainBed does
    n_unlabelled: int = 0  # number of domains that algorithms adapt to


class Algorithm(nn.Module):
    """Base of all algorithms.

    ``__init__`` creates the networks on the CPU, from torch's global generator. Whoever creates an
    algorithm seeds that generator, and then moves the algorithm to the task's device. Random draws
    while training come from ``generator``, which is on that device.
    """

    has_steps: ClassVar[bool] = True  # False where ``conclude`` alone does the work
    is_recordable: ClassVar[bool] = True  # False where steps may wait for the device
    # The hyperparameter, if there is one, that says how many steps train only a part at first.
    partial_steps: ClassVar[str] = ""

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        super().__init__()
        self.task, self.hparams, self.generator = task, hparams, generator
        self.optimizers: dict[str, torch.optim.Optimizer] = {}

    def update(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Take one step on minibatches ``x`` (K, b, ...), ``y`` (K, b) of the K training domains.

        Return scalars to log. On a GPU a step may be recorded and replayed. So the code must never
        wait for the device (no ``item``, no shape that depends on data), must keep its state in
        tensors that it changes in place, and may use ``step`` only through ``variant``.
        """
        raise NotImplementedError

    def update_adapting(
        self, step: int, x: Tensor, y: Tensor, unlabelled: Tensor
    ) -> dict[str, Tensor]:
        """Take one step as ``update`` does, with ``unlabelled`` (T, b, ...) of domains to adapt to.

        Most algorithms, and all of DomainBed's own, make no use of these.
        """
        return self.update(step, x, y)

    def predict(self, x: Tensor) -> Tensor:
        """Return the logits (n, C) of ``x`` (n, ...), rows of one domain."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of ``predict``."""
        return self.predict(x)

    def predict_all(self, x: Tensor) -> Tensor:
        """Return logits (h, n, C) of all evaluated classifiers; the last one counts."""
        return self.predict(x)[None]

    def variant(self, step: int) -> Hashable:
        """Return a key; steps with the same key perform the same operations on the same tensors."""
        return None

    def schedule(self, steps: int, every: int) -> list[int]:
        """Return the steps, of those asked for, after which a run is evaluated, in order."""
        return sorted({*range(0, steps, every), steps - 1}) if self.has_steps else [0]

    def conclude(self, sources: Iterable[tuple[int, Tensor, Tensor]]) -> None:
        """Finish after the last step; ``sources`` yields all rows: domain, ``x`` and ``y``."""

    def summary(self) -> dict[str, Any]:
        """Return additional facts about the run for its record, in JSON's types."""
        return {}

    def adam(self, parameters: Iterable[nn.Parameter], **options: Any) -> torch.optim.Adam:
        """Return an Adam optimizer with these ``options``, whose steps a GPU can record."""
        on_gpu = self.task.device.type == "cuda"
        return torch.optim.Adam(list(parameters), fused=True, capturable=on_gpu, **options)

    def descend(self, loss: Tensor, *optimizers: str) -> None:
        """Take one step of the named ``optimizers`` down the gradient of ``loss``."""
        chosen = [self.optimizers[name] for name in optimizers]
        # Gradients of other parameters are not needed.
        parameters = [p for optimizer in chosen for p in parameters_of_optimizer(optimizer)]
        inputs = [p for p in parameters if p.requires_grad]
        for parameter in inputs:
            parameter.grad = None  # a third of what zero_grad takes
        loss.backward(inputs=inputs)  # type: ignore[no-untyped-call]
        for optimizer in chosen:
            optimizer.step()

    def state(self) -> dict[str, Tensor]:
        """Return all that later steps depend on: parameters, optimizers and the generator."""
        tensors = dict(self.state_dict())
        for name, optimizer in self.optimizers.items():
            for key, value in optimizer_state(optimizer).items():
                tensors[f"{OPTIMIZER}.{name}.{key}"] = value
        tensors[GENERATOR] = self.generator.get_state()
        return tensors

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from what ``state`` returned."""
        rest = dict(tensors)
        self.generator.set_state(rest.pop(GENERATOR))
        for name, optimizer in self.optimizers.items():
            prefix = f"{OPTIMIZER}.{name}."
            mine = [full for full in rest if full.startswith(prefix)]
            state = {full.removeprefix(prefix): rest.pop(full) for full in mine}
            load_optimizer_state(optimizer, state)
        self.load_state_dict(rest)


# Hyperparameters of an algorithm, on all datasets or by their group.
Own = Space | Callable[[Group], Space]


@dataclass(frozen=True)
class Entry:
    """Registered algorithm."""

    name: str
    make: Callable[[Task, Mapping[str, Any], torch.Generator], Algorithm]
    own: Own
    by_dataset: Mapping[str, Space] = field(default_factory=dict)
    origin: str = ""  # of a plugin's: its file and checksum, or its package and version
    partial_steps: str = ""  # the class's own

    def space(
        self, group: Group, of_dataset: Space | None = None, dataset: str = ""
    ) -> dict[str, Hparam]:
        """Return all its hyperparameters on datasets of a group, the common ones included.

        Those of the dataset replace common ones; the algorithm's own replace both, and those that
        it has on the ``dataset`` of this name replace all.
        """
        own = self.own(group) if callable(self.own) else self.own
        on_it = self.by_dataset.get(dataset, {})
        return {**common_space(group), **(of_dataset or {}), **own, **on_it}


ENTRIES: dict[str, Entry] = {}  # of the modules imported so far


def algorithm(
    name: str, own: Own | None = None, *, by_dataset: Mapping[str, Space] | None = None
) -> Callable[[type[Algorithm]], type[Algorithm]]:
    """Register a class under ``name``, with hyperparameters of its ``own``.

    ``by_dataset`` has those that differ on datasets of some name.
    """

    def register(make: type[Algorithm]) -> type[Algorithm]:
        if name in ENTRIES:
            raise ValueError(f"there are two algorithms called {name!r}: rename one of them.")
        partial = make.partial_steps
        ENTRIES[name] = Entry(name, make, own or {}, by_dataset or {}, partial_steps=partial)
        return make

    return register
