"""Plausible targets as mixtures of hidden groups, and the exact search for the worst of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import torch
from torch import Tensor

from regraft.core.game import Target
from regraft.core.newton import log_probabilities, losses
from regraft.core.surrogates import WeightedSample


def check_prior_shift(prior_shift: float | None) -> None:
    """Raise ``ValueError`` unless ``prior_shift`` is None or a number of nats, 0 or more."""
    if prior_shift is not None and not 0 <= prior_shift < math.inf:
        raise ValueError(
            f"prior_shift is {prior_shift}: pass a number of nats, 0 or more, or leave it out "
            "for any mixture of the groups."
        )


def favoured_groups(n_groups: int, prior_shift: float | None) -> tuple[tuple[int, ...], ...]:
    """Return the sets of groups that an extreme target favours."""
    most = 1 if prior_shift is None else max(n_groups - 1, 1)
    return tuple(c for size in range(1, most + 1) for c in combinations(range(n_groups), size))


def extreme_tilts(n_groups: int, prior_shift: float | None) -> Tensor:
    """Return the factors (V, G) by which extreme targets weigh the groups."""
    favoured = favoured_groups(n_groups, prior_shift)
    others = 0.0 if prior_shift is None else math.exp(-prior_shift)
    tilts = torch.full((len(favoured), n_groups), others, dtype=torch.float64)
    for tilt, chosen in zip(tilts, favoured, strict=True):
        tilt[list(chosen)] = 1.0
    return tilts


@dataclass(frozen=True)
class GroupTargets:
    """All mixtures of the groups, as weights of the source rows.

    A target weighs row i by ``Σ_u π(u) w_u(i)`` with ``w_u(i) ∝ base_i P(u | x_i, y_i)``: the law
    of group u in the pooled sources, its labels included. With ``class_groups`` every class mixes
    the groups in its own way, and the shares of the labels are kept. ``prior_shift`` bounds the
    change of the log-odds of any two groups (nats); None allows every mixture.

    The risk is linear in π, and along a bounded shift a ratio of linear functions, so the worst
    target is extreme: one group alone, or some groups favoured by the whole bound.
    """

    belief: Tensor  # (n, G) P(u | x, y)
    base: Tensor  # (n,) weights of the pooled rows, which sum to one
    y: Tensor  # (n,)
    n_classes: int
    prior_shift: float | None = None
    class_groups: bool = False
    told: Tensor | None = None  # (n,) rows of classes that tell groups apart; None for all of them

    @cached_property
    def favoured(self) -> tuple[tuple[int, ...], ...]:
        """Sets of groups that an extreme target favours."""
        return favoured_groups(self.belief.shape[1], self.prior_shift)

    @cached_property
    def _tilts(self) -> Tensor:
        return extreme_tilts(self.belief.shape[1], self.prior_shift).to(self.belief)

    @cached_property
    def shares(self) -> Tensor:
        """Expected factor (n, V) of each row in each extreme target."""
        return self.belief @ self._tilts.T

    @property
    def least_factor(self) -> float:
        """Factor of a row that an extreme target does not favour."""
        return float(self._tilts.min())

    @cached_property
    def _members(self) -> tuple[Tensor, ...]:
        """Masks (n,) of the rows that shift together: all of them, or each class."""
        if not self.class_groups:
            return (torch.ones_like(self.y, dtype=torch.bool),)
        return tuple(self.y == c for c in range(self.n_classes))

    @cached_property
    def blocks(self) -> tuple[Tensor, ...]:
        """Extreme weights (V, n) of the rows that shift together."""
        weights = self.shares.T * self.base
        tiny = torch.finfo(weights.dtype).tiny
        return tuple(
            self.base[rows].sum() * masked / masked.sum(dim=1, keepdim=True).clamp_min(tiny)
            for rows, masked in ((rows, weights * rows) for rows in self._members)
        )

    @property
    def prior(self) -> Tensor:
        """Share (C, G) of each group in each class."""
        joint = self.belief.new_zeros((self.n_classes, self.belief.shape[1]))
        joint.index_add_(0, self.y, self.belief * self.base.unsqueeze(1))
        return joint / joint.sum(dim=1, keepdim=True)

    @cached_property
    def purity(self) -> tuple[Tensor, ...]:
        """Share (V,) of each extreme target's weight that lies on rows of its groups, by block.

        It is what the beliefs expect: the rows' groups are not known for certain. Rows of a class
        that tells nothing are taken to be alike in all groups, so they are always right.
        """
        purities = []
        for rows in self._members:
            belief, base, weight = self.belief[rows], self.base[rows], self.shares[rows]
            right = torch.stack(
                [
                    (belief * torch.minimum(tilt, each.unsqueeze(1))).sum(dim=1)
                    for tilt, each in zip(self._tilts, weight.T, strict=True)
                ],
                dim=1,
            )
            if self.told is not None:
                right = torch.where(self.told[rows].unsqueeze(1), right, weight)
            purities.append((base @ right) / (base @ weight))
        return tuple(purities)

    def worst(self, loss: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights (n,) of the worst target for losses (n,), and its choice by block."""
        picks = [int((block @ loss).argmax()) for block in self.blocks]
        weights = [block[pick] for block, pick in zip(self.blocks, picks, strict=True)]
        return torch.stack(weights).sum(dim=0), torch.tensor(picks)


class GroupAdversary:
    """Exact adversary over mixtures of the groups, on rows ``Z`` (n, k)."""

    def __init__(self, Z: Tensor, targets: GroupTargets) -> None:
        self._Z, self._targets = Z, targets

    def attack(self, head: Tensor) -> Target:
        """Return the worst target for ``head`` (C, k); z says which groups it favours."""
        y = self._targets.y
        weights, picks = self._targets.worst(losses(log_probabilities(self._Z, head), y))
        return Target(WeightedSample(self._Z, y, weights), picks)
