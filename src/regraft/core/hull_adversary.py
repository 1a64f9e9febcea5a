"""The hull as an adversary: its search for the worst target, under each surrogate."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regraft.core.game import Adversary, Target
from regraft.core.heads import SourceHeads
from regraft.core.hull import (
    Hull,
    Objective,
    Surrogates,
    attack,
    fit_hull,
    plausible_targets,
    search,
)
from regraft.core.newton import log_probabilities, logits, losses
from regraft.core.surrogates import Sample, SurrogateKind, every_label, relabelled, transplanted
from regraft.core.transplant import find_witness


class HullAdversary:
    """Targets within ``radius`` nats; real rows keep real labels and change their weights.

    ``optimism`` (n,) is what fitting has taken off the rows' losses, None if nothing.
    """

    def __init__(
        self,
        Z: Tensor,
        surrogates: Surrogates,
        radius: float,
        objective: Objective = "risk",
        optimism: Tensor | None = None,
    ) -> None:
        self._Z, self._surrogates = Z, surrogates
        self._radius, self._objective = radius, objective
        self._optimism = optimism
        self._known: list[Tensor] = []

    def attack(self, head: Tensor) -> Target:
        """The worst target of the ball, never better than one found before."""
        y = self._surrogates.y
        loss = losses(log_probabilities(self._Z, head), y)
        if self._optimism is not None:
            loss = loss + self._optimism
        found = attack(self._surrogates, loss, self._radius, self._objective, self._known)
        self._known.append(found.z)
        constant = self._optimism
        if self._objective == "regret":
            own = self._surrogates.own_losses(found.z)
            constant = -own if constant is None else constant - own
        return Target(Sample(self._Z, y, found.weights, constant), found.z)


class SoftHullAdversary:
    """The same targets, on source rows whose labels are drawn from the target's head.

    With ``surrogate="transplanted"`` the rows are moved by T_{s->star} first. One basis L serves
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
        self._pairs = every_label(Sample(sources.Z, sources.y, sources.weight), n_classes)
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
        """The worst target of the ball, never better than one found before."""

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
        z, _ = search(value_and_gradient, origin, self._radius, self._known)
        self._known.append(z)
        sample = self._sample(z)
        if self._objective == "regret":
            own = losses(log_probabilities(sample.Z, self._hull.head(z)), sample.y)
            sample = replace(sample, constant=-own)
        return Target(sample, z)

    def _sample(self, z: Tensor) -> Sample:
        head = self._hull.head(z)
        if not self._moves:
            return relabelled(self._pairs, head)
        Z = self._pairs.Z
        moved = Z + (self._own_logits - Z @ head.T) @ self._basis.T
        return transplanted(self._pairs, moved, head)


def hull_adversary(
    sources: SourceHeads,
    *,
    radius: float,
    rank: int | None = None,
    objective: Objective = "risk",
    surrogate: SurrogateKind = "reweighted",
) -> tuple[Hull, Adversary]:
    """The hull of the source heads, and its adversary under ``surrogate``."""
    if surrogate == "reweighted":
        hull, surrogates = plausible_targets(sources, rank)
        optimism = sources.optimism()
        return hull, HullAdversary(sources.Z, surrogates, radius, objective, optimism)
    hull = fit_hull(sources.heads, sources.Z, sources.weight, rank)
    return hull, SoftHullAdversary(sources, hull, radius, objective, surrogate)
