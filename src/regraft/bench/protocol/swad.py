"""SWAD (Cha et al. 2021): the mean of a network's weights over the flat part of its training.

Weights are averaged at every step. The validation loss, known now and then, parts the steps into
segments and decides which of them count. The first one whose loss is the least of ``N_START`` in a
row begins the average. It ends before ``N_END`` in a row whose losses are all above ``TOLERANCE``
times the mean of the losses at the beginning.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

N_START, N_END, TOLERANCE = 3, 6, 1.3  # the authors', except on VLCS
N_BATCHES = 500  # minibatches from which batch normalization learns its statistics again
_PREFIX, _FACTS = "swad.", "facts"
Weights = dict[str, Tensor]


@dataclass
class _Mean:
    """Mean of the weights over some steps, the last of which is ``end``."""

    weights: Weights
    count: int
    first: int
    end: int
    loss: float = math.nan  # on the validation rows, after the last step

    def facts(self) -> list[float]:
        return [self.count, self.first, self.end, self.loss]

    def add(self, other: _Mean) -> None:
        """Take in the steps of ``other``."""
        self.count += other.count
        self.end = other.end
        for name, value in self.weights.items():
            if value.is_floating_point():
                value.lerp_(other.weights[name], other.count / self.count)
            else:
                value.copy_(other.weights[name])


class ValleyAverage:
    """The average so far, in memory of at most ``N_END`` + 2 networks."""

    def __init__(self) -> None:
        self._running: _Mean | None = None  # since the last validation
        self._undecided: deque[_Mean] = deque()
        self._mean: _Mean | None = None
        self._threshold = math.inf
        self._is_closed = False

    def add(self, step: int, weights: Mapping[str, Tensor]) -> None:
        """Take in the weights after a step, which may change afterwards."""
        if self._is_closed:
            return
        if self._running is not None:
            self._running.add(_Mean(dict(weights), 1, step, step))
            return
        copied = {name: value.detach().clone() for name, value in weights.items()}
        self._running = _Mean(copied, 1, step, step)

    def judge(self, loss: float) -> None:
        """End a segment with the validation loss after its last step."""
        if self._running is None:
            return
        self._running.loss = loss
        self._undecided.append(self._running)
        self._running = None
        if self._threshold == math.inf and len(self._undecided) == N_START:
            losses = [segment.loss for segment in self._undecided]
            if losses[0] == min(losses):
                self._threshold = TOLERANCE * sum(losses) / N_START
            else:
                self._undecided.popleft()
        self._decide(N_END)

    def finish(self) -> Weights | None:
        """Return the average after the last step; None if the loss never stopped falling."""
        self._decide(1)
        return None if self._mean is None else self._mean.weights

    def summary(self) -> dict[str, Any]:
        """Return the first and the last step of the average, for a run's record."""
        mean = self._mean
        return {"swad_steps": None if mean is None else [mean.first, mean.end]}

    def state(self) -> Weights:
        """Return all that later steps depend on."""
        named = {"running": self._running, "mean": self._mean}
        named |= {f"segment{i}": segment for i, segment in enumerate(self._undecided)}
        tensors = {f"{_PREFIX}{_FACTS}": _vector([self._threshold, self._is_closed])}
        for name, mean in named.items():
            if mean is not None:
                tensors[f"{_PREFIX}{name}.{_FACTS}"] = _vector(mean.facts())
                for key, value in mean.weights.items():
                    tensors[f"{_PREFIX}{name}.weights.{key}"] = value
        return tensors

    def load_state(self, tensors: Mapping[str, Tensor], device: torch.device) -> Weights:
        """Go on from what ``state`` returned; the tensors that are not its own."""
        own = {
            name.removeprefix(_PREFIX): tensor.to(device)
            for name, tensor in tensors.items()
            if name.startswith(_PREFIX)
        }
        self._threshold, is_closed = own[_FACTS].tolist()
        self._is_closed = bool(is_closed)
        self._running, self._mean = _load(own, "running"), _load(own, "mean")
        segments = (_load(own, f"segment{i}") for i in range(N_END))
        self._undecided = deque(segment for segment in segments if segment is not None)
        return {name: value for name, value in tensors.items() if not name.startswith(_PREFIX)}

    def _decide(self, n_known: int) -> None:
        """Average the first segments while ``n_known`` losses or more can tell whether they count.

        Before the average has begun, none counts.
        """
        while self._threshold < math.inf and len(self._undecided) >= n_known:
            losses = [segment.loss for segment in self._undecided]
            if min(losses[:N_END]) > self._threshold:
                self._is_closed = True
                self._undecided.clear()
                return
            segment = self._undecided.popleft()
            if self._mean is None:
                self._mean = segment
            else:
                self._mean.add(segment)


@torch.no_grad()
def renew_statistics(network: nn.Module, batches: Iterable[Tensor]) -> None:
    """Let batch normalization that is not frozen learn its statistics again from ``batches``.

    Statistics are the mean over the batches. Layers that no batch reaches keep theirs.
    """
    network.train()
    alive = [
        layer
        for layer in network.modules()
        if isinstance(layer, nn.modules.batchnorm._BatchNorm)
        and layer.training
        and layer.track_running_stats
    ]
    if not alive:
        return
    before = [{name: value.clone() for name, value in layer.named_buffers()} for layer in alive]
    momenta = [layer.momentum for layer in alive]
    for layer in alive:
        layer.reset_running_stats()
        layer.momentum = None  # equal weights
    for x in batches:
        network(x)
    for layer, buffers, momentum in zip(alive, before, momenta, strict=True):
        layer.momentum = momentum
        assert layer.num_batches_tracked is not None
        if layer.num_batches_tracked == 0:
            layer.load_state_dict(buffers, strict=False)


def _vector(values: Iterable[float]) -> Tensor:
    return torch.tensor(list(values), dtype=torch.float64)


def _load(tensors: Mapping[str, Tensor], name: str) -> _Mean | None:
    if f"{name}.{_FACTS}" not in tensors:
        return None
    count, first, end, loss = tensors[f"{name}.{_FACTS}"].tolist()
    prefix = f"{name}.weights."
    weights = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
    return _Mean(weights, int(count), int(first), int(end), loss)
