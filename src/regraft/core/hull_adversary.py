"""Adversaries over the hull: the search for the worst target, for each kind of surrogate."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict, Unpack

import torch
from torch import Tensor

from regraft.core.ball_search import maximize_in_ball
from regraft.core.game import Adversary, Target
from regraft.core.guard import WorstCase
from regraft.core.heads import SourceHeads
from regraft.core.hull import (
    Attack,
    Hull,
    Objective,
    PlausibleTargets,
    attack,
    fit_hull,
    hull_targets,
)
from regraft.core.newton import log_probabilities, logits, losses
from regraft.core.surrogates import (
    SurrogateKind,
    WeightedSample,
    pair_with_every_label,
    relabel,
    relabel_moved,
)
from regraft.core.target_rows import TargetRows
from regraft.core.transplant import find_witness


class ReweightingHullAdversary:
    """Targets within ``radius`` nats, made of real rows with real labels, and the sources.

    ``optimism`` (n,) is what fitting has taken off the losses of the rows; None means nothing.
    """

    def __init__(
        self,
        Z: Tensor,
        surrogates: TargetRows,
        radius: float,
        objective: Objective = "risk",
        optimism: Tensor | None = None,
    ) -> None:
        self._Z, self._surrogates = Z, surrogates
        self._radius, self._objective = radius, objective
        self._optimism = optimism
        self._known: list[Tensor] = []

    def attack(self, head: Tensor) -> Target:
        """Return the worst target in the ball, at least as bad as those found before."""
        y = self._surrogates.y
        loss = losses(log_probabilities(self._Z, head), y)
        if self._optimism is not None:
            loss = loss + self._optimism
        found = attack(self._surrogates, loss, self._radius, self._objective, self._known)
        if found.source is None:
            self._known.append(found.z)
        constant = self._optimism
        if self._objective == "regret":
            own = self._own_losses(found)
            constant = -own if constant is None else constant - own
        return Target(WeightedSample(self._Z, y, found.weights, constant), found.z)

    def worst_case(self, loss: Tensor) -> WorstCase:
        """Return the worst target for the losses (n,) of heads that have not seen the rows."""
        found = attack(self._surrogates, loss, self._radius, self._objective, self._known)
        if self._objective == "regret":
            loss = loss - self._own_losses(found)
        return WorstCase(found.weights, loss)

    def _own_losses(self, found: Attack) -> Tensor:
        """Return the losses (n,) of the target's own head."""
        if found.source is None:
            return self._surrogates.own_losses(found.z)
        return self._surrogates.source_losses()


class SoftLabelHullAdversary:
    """The same targets, made of source rows with labels drawn from the target's head.

    With ``surrogate="transplanted"`` the rows are first moved by T_{s->star}. One basis L serves
    the whole hull: heads of the hull differ only along the disagreements of the sources, which L
    annihilates.
    """

    def __init__(
        self,
        sources: SourceHeads,
        hull: Hull,
        radius: float,
        objective: Objective = "risk",
        surrogate: SurrogateKind = "relabelled",
    ) -> None:
        self._hull, self._radius, self._objective = hull, radius, objective
        self._moves = surrogate == "transplanted"
        n_classes = len(hull.center)
        self._pairs = pair_with_every_label(
            WeightedSample(sources.Z, sources.y, sources.weight), n_classes
        )
        if self._moves:
            heads = torch.stack([hull.head(z) for z in hull.sources])
            witness = find_witness(hull.center, heads)
            # L (W_s - W_z) w = L Q^T (W_s - W_z) w, with Q the class directions of the witness.
            self._basis = witness.basis @ (witness.basis.T @ hull.center.T)
            pairs = zip(sources.slices, heads, strict=True)
            own = [logits(sources.Z[rows], head) for rows, head in pairs]
            self._own_logits = torch.cat(own).repeat(n_classes, 1)
        self._known: list[Tensor] = []

    def attack(self, head: Tensor) -> Target:
        """Return the worst target in the ball, at least as bad as those found before."""

        def value_and_gradient(z: Tensor) -> tuple[float, Tensor]:
            with torch.enable_grad():
                z = z.detach().requires_grad_()
                sample = self._sample(z)
                loss = losses(log_probabilities(sample.Z, head), sample.y)
                if self._objective == "regret":
                    log_p = log_probabilities(sample.Z, self._hull.head(z))
                    loss = loss - losses(log_p, sample.y)
                value = sample.weight @ loss
                (gradient,) = torch.autograd.grad(value, z)
            return float(value.detach()), gradient

        origin = self._pairs.Z.new_zeros(len(self._hull.directions))
        z, _ = maximize_in_ball(value_and_gradient, origin, self._radius, self._known)
        self._known.append(z)
        sample = self._sample(z)
        if self._objective == "regret":
            own = losses(log_probabilities(sample.Z, self._hull.head(z)), sample.y)
            sample = replace(sample, constant=-own)
        return Target(sample, z)

    def _sample(self, z: Tensor) -> WeightedSample:
        head = self._hull.head(z)
        if not self._moves:
            return relabel(self._pairs, head)
        Z = self._pairs.Z
        moved = Z + (self._own_logits - Z @ head.T) @ self._basis.T
        return relabel_moved(self._pairs, moved, head)


class HullOptions(TypedDict, total=False):
    """Options of a game over the hull, beside its radius."""

    targets: PlausibleTargets | None  # of another family; by default those of the source heads
    rank: int | None  # transplant dimension; None, the default, keeps all class directions
    objective: Objective  # "risk" by default
    surrogate: SurrogateKind  # "reweighted" by default


def make_hull_adversary(
    sources: SourceHeads, *, radius: float, **options: Unpack[HullOptions]
) -> tuple[Hull, Adversary]:
    """Return the hull of the targets, and the adversary that searches it."""
    rank, objective = options.get("rank"), options.get("objective", "risk")
    surrogate = options.get("surrogate", "reweighted")
    if surrogate == "reweighted":
        targets = options.get("targets") or hull_targets(sources, rank)
        optimism = sources.optimism()
        return targets.hull, ReweightingHullAdversary(
            sources.Z, targets.rows, radius, objective, optimism
        )
    hull = fit_hull(sources.heads, sources.Z, sources.weight, rank)
    return hull, SoftLabelHullAdversary(sources, hull, radius, objective, surrogate)
