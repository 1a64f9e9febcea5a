"""Surrogate targets as finite labelled distributions: three ways to make one from source rows.

The paper fixes a target's conditional, its head g*, and its support; the marginal is free.
``reweighted`` keeps real rows and real labels, ``relabelled`` keeps the rows and takes labels
from g*, ``transplanted`` moves the rows by T_{s->star} first (eq. `surrogate-distribution`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from regraft.core.newton import log_probabilities, logits, losses

SurrogateKind = Literal["reweighted", "transplanted", "relabelled"]


def check_surrogate(surrogate: str) -> None:
    """Raise ``ValueError`` for a surrogate that the game does not know."""
    if surrogate not in get_args(SurrogateKind):
        raise ValueError(
            f'surrogate is {surrogate!r}: pass "reweighted", "transplanted" or "relabelled".'
        )


@dataclass(frozen=True)
class WeightedSample:
    """Rows ``Z`` (n, k), labels ``y`` (n,) and weights (n,) that sum to one.

    ``constant`` (n,) is added to the loss of each row, whatever the head: what fitting takes off
    it, or, under regret, minus the loss of the target's own head. None stands for zeros.
    """

    Z: Tensor
    y: Tensor
    weight: Tensor
    constant: Tensor | None = None

    @property
    def effective_size(self) -> float:
        """How many equally weighted rows (with soft labels: pairs of row and label) it is worth."""
        return float(1 / self.weight.square().sum())

    @property
    def offset(self) -> float:
        """What the constants take off the risk."""
        return 0.0 if self.constant is None else -float(self.weight @ self.constant)

    def risk(self, head: Tensor) -> float:
        """Cross-entropy of a head (C, k), in nats, without the constants."""
        return float(self.weight @ losses(log_probabilities(self.Z, head), self.y))

    def value(self, head: Tensor) -> float:
        """The same with the constants: what the game is about."""
        return self.risk(head) - self.offset

    def standard_error(self, head: Tensor) -> float:
        """Of the value of a head (C, k), as an estimate from this many rows of these weights."""
        loss = losses(log_probabilities(self.Z, head), self.y)
        loss = loss if self.constant is None else loss + self.constant
        return float((self.weight.square() @ (loss - self.weight @ loss).square()).sqrt())

    def accuracy(self, head: Tensor) -> float:
        """Share of the weight that a head (C, k) classifies correctly."""
        correct = logits(self.Z, head).argmax(dim=1) == self.y
        return float(self.weight @ correct.to(self.weight.dtype))


def reweight(rows: WeightedSample, center: Tensor, head: Tensor) -> WeightedSample:
    """Source rows with weights that turn the conditional of ``center`` into that of ``head``."""
    log_share = log_probabilities(rows.Z, head - center)
    log_weight = rows.weight.log() - losses(log_share, rows.y)
    return WeightedSample(rows.Z, rows.y, torch.softmax(log_weight, dim=0))


def pair_with_every_label(rows: WeightedSample, n_classes: int) -> WeightedSample:
    """Each row once with every label, at its own weight: what soft labels are weights on.

    The rows take the weights' precision: targets are differentiated through them.
    """
    labels = torch.arange(n_classes, device=rows.y.device).repeat_interleave(len(rows.Z))
    Z = rows.Z.to(rows.weight.dtype).repeat(n_classes, 1)
    return WeightedSample(Z, labels, rows.weight.repeat(n_classes))


def relabel(pairs: WeightedSample, head: Tensor) -> WeightedSample:
    """Weigh ``pairs`` (from :func:`pair_with_every_label`) by the label shares of ``head``."""
    share = torch.exp(-losses(log_probabilities(pairs.Z, head), pairs.y))
    return WeightedSample(pairs.Z, pairs.y, pairs.weight * share)


def relabel_moved(pairs: WeightedSample, moved: Tensor, head: Tensor) -> WeightedSample:
    """The rows of ``pairs``, transplanted to ``moved`` (one row a pair), labelled by ``head``."""
    return relabel(WeightedSample(moved, pairs.y, pairs.weight), head)


def stack_samples(samples: Sequence[WeightedSample]) -> tuple[Tensor, Tensor, Tensor]:
    """Rows (N, k), labels (N,) and weights (t, N) that describe t samples at once.

    Samples with the same rows (the same tensors) share them.
    """
    first = samples[0]
    if all(sample.Z is first.Z and sample.y is first.y for sample in samples):
        return first.Z, first.y, torch.stack([sample.weight for sample in samples])
    weights = torch.block_diag(*(s.weight for s in samples))  # type: ignore[no-untyped-call]
    return torch.cat([s.Z for s in samples]), torch.cat([s.y for s in samples]), weights
