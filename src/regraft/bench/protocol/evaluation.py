"""Accuracies on both parts of every environment, which the protocol asks for again and again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regraft.bench.algorithms import Algorithm
from regraft.bench.datasets import Environment
from regraft.bench.protocol.seeds import seed_hash
from regraft.support.prefetch import ahead

# Rows at once, whole batches of DomainBed's 64: a processor is twice as fast when a layer's output
# fits its cache.
_ROWS_CPU, _ROWS_GPU = 192, 4096


@dataclass(frozen=True)
class Split:
    """One part of one environment."""

    env: int
    name: str  # "in", "out" or "uda"
    rows: Tensor  # on the device of the environment


def parts(
    environment: Environment, rows: Tensor, augmentation: int | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the inputs and labels of ``rows``, some at a time."""
    usual = _ROWS_GPU if environment.is_in_memory and rows.is_cuda else _ROWS_CPU
    size = environment.rows_at_once or usual
    starts = range(0, len(rows), size)

    def make(start: int) -> tuple[Tensor, Tensor]:
        some = rows[start : start + size]
        seed = None if augmentation is None else seed_hash(augmentation, start)
        return environment.inputs(some, seed), environment.y[some]

    made = map(make, starts)
    return made if environment.is_in_memory else ahead(made)


@torch.no_grad()
def count_correct(
    algorithm: Algorithm,
    environments: Sequence[Environment],
    splits: Sequence[Split],
    augmentation: dict[int, int],
) -> Tensor:
    """Count the correct rows of each classifier and split, (h, len(splits)), without waiting.

    ``augmentation`` has a seed for every environment whose inputs are changed at random.
    """
    algorithm.eval()
    counts = []
    for split in splits:
        seed = augmentation.get(split.env)
        correct = [
            (algorithm.predict_all(x).argmax(dim=2) == y).sum(dim=1)
            for x, y in parts(environments[split.env], split.rows, seed)
        ]
        counts.append(torch.stack(correct).sum(dim=0))
    algorithm.train()
    return torch.stack(counts, dim=1)


@torch.no_grad()
def mean_loss(
    algorithm: Algorithm, environments: Sequence[Environment], splits: Sequence[Split]
) -> float:
    """Return the mean over ``splits`` of the mean cross-entropy of their rows."""
    algorithm.eval()
    losses = []
    for split in splits:
        total = sum(
            functional.cross_entropy(algorithm.predict(x), y, reduction="sum")
            for x, y in parts(environments[split.env], split.rows)
        )
        losses.append(float(total) / len(split.rows))
    algorithm.train()
    return sum(losses) / len(losses)


def accuracies(counts: Tensor, splits: Sequence[Split]) -> list[dict[str, float]]:
    """Return each classifier's shares by DomainBed's names, env0_in_acc and so on."""
    return [
        {
            f"env{split.env}_{split.name}_acc": count / len(split.rows)
            for split, count in zip(splits, row, strict=True)
        }
        for row in counts.tolist()
    ]


def risks(shares: Sequence[Mapping[str, float]], test_envs: Sequence[int]) -> list[dict[str, Any]]:
    """Return each classifier's error rates: the mean source's, held out, and the mean target's."""
    found = []
    for step, share in enumerate(shares):
        targets_out = {f"env{env}_out_acc" for env in test_envs}
        sources = [
            value
            for name, value in share.items()
            if name.endswith("_out_acc") and name not in targets_out
        ]
        targets = [share[f"env{env}_in_acc"] for env in test_envs]
        source_risk, target_risk = (1 - sum(part) / len(part) for part in (sources, targets))
        found.append({"step": step, "source_risk": source_risk, "target_risk": target_risk})
    return found
