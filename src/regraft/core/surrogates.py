"""Surrogate targets as weighted samples, and three ways to make one from source rows.

The paper fixes the conditional of a target, its head g*, and its support; the marginal is free.
``reweighted`` keeps real rows and real labels. ``relabelled`` keeps the rows and takes labels
from g*. ``transplanted`` first moves the rows by T_{s->star} (eq. `surrogate-distribution`).
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
    """Raise ``ValueError`` unless ``surrogate`` is a known kind."""
    if surrogate not in get_args(SurrogateKind):
        raise ValueError(
            f'surrogate is {surrogate!r}: pass "reweighted", "transplanted" or "relabelled".'
        )


@dataclass(frozen=True)
class WeightedSample:
    """Rows ``Z`` (n, k), labels ``y`` (n,) and weights (n,) that sum to one.

    ``constant`` (n,) is added to the loss of each row, whatever the head: the optimism of fitting
    or, under regret, minus the loss of the target's own head. None means zeros.
    """

    Z: Tensor
    y: Tensor
    weight: Tensor
    constant: Tensor | None = None

    @property
    def effective_size(self) -> float:
        """Number of equally weighted rows (or pairs of row and soft label) that it is worth."""
        return float(1 / self.weight.square().sum())

    @property
    def offset(self) -> float:
        """Number that the constants subtract from the risk."""
        return 0.0 if self.constant is None else -float(self.weight @ self.constant)

    def risk(self, head: Tensor) -> float:
        """Return the cross-entropy of a head (C, k), in nats, without the constants."""
        return float(self.weight @ losses(log_probabilities(self.Z, head), self.y))

    def value(self, head: Tensor) -> float:
        """Return the cross-entropy of a head (C, k) with the constants: the payoff of the game."""
        return self.risk(head) - self.offset

    def accuracy(self, head: Tensor) -> float:
        """Return the share of the weight that a head (C, k) classifies correctly."""
        correct = logits(self.Z, head).argmax(dim=1) == self.y
        return float(self.weight @ correct.to(self.weight.dtype))


def reweight(rows: WeightedSample, center: Tensor, head: Tensor) -> WeightedSample:
    """Reweight source rows so that the conditional of ``center`` becomes that of ``head``."""
    log_share = log_probabilities(rows.Z, head - center)
    log_weight = rows.weight.log() - losses(log_share, rows.y)
    return WeightedSample(rows.Z, rows.y, torch.softmax(log_weight, dim=0))


def pair_with_every_label(rows: WeightedSample, n_classes: int) -> WeightedSample:
    """Pair each row with every label, at the row's own weight, so that weights can be soft labels.

    The rows get the precision of the weights, because targets are differentiated through them.
    """
    labels = torch.arange(n_classes, device=rows.y.device).repeat_interleave(len(rows.Z))
    Z = rows.Z.to(rows.weight.dtype).repeat(n_classes, 1)
    return WeightedSample(Z, labels, rows.weight.repeat(n_classes))


def relabel(pairs: WeightedSample, head: Tensor) -> WeightedSample:
    """Weigh ``pairs`` (from :func:`pair_with_every_label`) by the label shares under ``head``."""
    share = torch.exp(-losses(log_probabilities(pairs.Z, head), pairs.y))
    return WeightedSample(pairs.Z, pairs.y, pairs.weight * share)


def relabel_moved(pairs: WeightedSample, moved: Tensor, head: Tensor) -> WeightedSample:
    """Replace the rows of ``pairs`` by ``moved`` (one row per pair), and label them by ``head``."""
    return relabel(WeightedSample(moved, pairs.y, pairs.weight), head)


def stack_samples(samples: Sequence[WeightedSample]) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows (N, k), labels (N,) and weights (t, N) that describe t samples at once.

    Samples with the same rows (the same tensors) share them.
    """
    first = samples[0]
    if all(sample.Z is first.Z and sample.y is first.y for sample in samples):
        return first.Z, first.y, torch.stack([sample.weight for sample in samples])
    weights = torch.block_diag(*(s.weight for s in samples))  # type: ignore[no-untyped-call]
    return torch.cat([s.Z for s in samples]), torch.cat([s.y for s in samples]), weights
