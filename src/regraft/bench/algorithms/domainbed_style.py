"""Classes written for DomainBed, run as they are: ``update(minibatches)`` and ``predict(x)``."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from regraft.bench.algorithms.base import Algorithm, Entry, Task
from regraft.bench.networks.plain_state import PlainState, pack, unpack
from regraft.bench.protocol.seeds import seed_hash
from regraft.bench.protocol.spaces import Hparam

_LAST_PARAMETERS = ["num_classes", "num_domains", "hparams"]  # the first has several names
# Switches that DomainBed's own networks ask for, with its defaults.
_SWITCHES = {
    "vit": False,
    "vit_attn_tune": False,
    "vit_dropout": 0.0,
    "dinov2": False,
    "lars": False,
    "linear_steps": 500,
    "mlp_width": 256,
    "mlp_depth": 3,
    "mlp_dropout": 0.0,
}


def is_domainbed_style(value: object) -> bool:
    """Return whether ``value`` is a class of modules with DomainBed's three methods.

    Its ``__init__`` may take more than DomainBed passes, where that has defaults.
    """
    if not (inspect.isclass(value) and issubclass(value, nn.Module)):
        return False
    if not all(callable(getattr(value, name, None)) for name in ("update", "predict")):
        return False
    parameters = list(inspect.signature(value).parameters.values())
    names, more = [each.name for each in parameters[1:4]], parameters[4:]
    return names == _LAST_PARAMETERS and all(each.default is not each.empty for each in more)


def adapt_class(name: str, own: Mapping[str, Any], made: type[nn.Module], origin: str) -> Entry:
    """Make a DomainBed-style class an algorithm of ours.

    ``own`` has its hyperparameters: a default, and a function that draws another value from a
    NumPy ``RandomState``, as in DomainBed's registry.
    """
    space = {key: Hparam(*value) for key, value in own.items()}
    return Entry(name, partial(DomainBedStyle, made), space, origin=origin)


class DomainBedStyle(Algorithm):
    """An algorithm whose steps are those of a class written for DomainBed.

    Its draws from the global generators of torch, NumPy and Python depend on the run's seed and
    the step alone, so that a run that goes on draws what it would have drawn.
    """

    is_recordable = False

    def __init__(
        self,
        made: type[nn.Module],
        task: Task,
        hparams: Mapping[str, Any],
        generator: torch.Generator,
    ) -> None:
        super().__init__(task, hparams, generator)
        with _seeded(seed_hash(task.seed, "weights"), task.device):
            self.inner: Any = made(
                task.input_shape, task.n_classes, task.n_domains, _SWITCHES | dict(hparams)
            )
        first = PlainState.of(self.inner)
        self._holders = None if first is None else first.holders
        self.inner.register_load_state_dict_pre_hook(_fit_to_state)  # type: ignore[no-untyped-call]

    def update(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Take one step; return the numbers that the class reports."""
        with _seeded(seed_hash(self.task.seed, "step", step), self.task.device):
            logged = self.inner.update(list(zip(x, y, strict=True)), None)
        return {name: torch.tensor(float(value)) for name, value in (logged or {}).items()}

    def train(self, mode: bool = True) -> Self:
        """Switch as DomainBed does: by ``train`` and ``eval`` of the class, without arguments."""
        self.training = mode
        (self.inner.train if mode else self.inner.eval)()
        return self

    def predict(self, x: Tensor) -> Tensor:
        """Return what the class predicts (n, C)."""
        logits: Tensor = self.inner.predict(x)
        return logits

    def state(self) -> dict[str, Tensor]:
        """Return the state of the class: its tensors, optimizers and plain attributes.

        It is empty where that cannot be restored: where the class holds something that is neither
        a tensor nor plain data, or has made networks or optimizers while it trained.
        """
        now = PlainState.of(self.inner)
        return {} if now is None or now.holders != self._holders else pack(now)

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from what ``state`` returned."""
        unpack(tensors).restore(self.inner, self.task.device)


def _fit_to_state(module: nn.Module, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Make buffers as large as they became while training, and leave out what was made then."""
    known = {*module.state_dict()}
    for name in [name for name in state if name.startswith(prefix)]:
        own = name.removeprefix(prefix)
        if own not in known:
            del state[name]
        elif own in dict(module.named_buffers()):
            module.get_submodule(own.rpartition(".")[0]).register_buffer(
                own.rpartition(".")[2], torch.empty_like(state[name])
            )


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the global generators inside, and leave them as they were."""
    python, numpy = random.getstate(), np.random.get_state()
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
