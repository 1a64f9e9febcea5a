"""The games of causal robust optimization, and other heads on features that Phase 1 has trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from regraft.bench.algorithms.base import Algorithm, Task
from regraft.bench.protocol.spaces import Space, choice, constant, ten_to
from regraft.core.certificate import Family
from regraft.core.domains import Domains
from regraft.core.free_adversary import FreeAdversary, FreeAdversaryOptions
from regraft.core.game import GameOutcome, play
from regraft.core.heads import SourceHeads, fit_source_heads
from regraft.core.hull_game import play_hull
from regraft.core.learner import Learner
from regraft.core.standardization import Standardized, standardize
from regraft.core.surrogates import SurrogateKind

RADIUS = 8.0  # nats; an assumption about the deployment, which no source validation can judge
_FREE_OPTIONS = frozenset(field.name for field in fields(FreeAdversaryOptions))

HULL_SPACE: Space = {
    "cro_gap_eps": ten_to(1e-3, -3, -2),
    "objective": choice("risk", ["risk", "regret"]),
    "ridge": ten_to(None, -5, -2),
}
# Those of `tab:hp-search-cro` and `tab:hp-search-phase2`; a learner that is solved does not read
# the three of its own among them.
FREE_SPACE: Space = {
    "cro_rank": choice(FreeAdversaryOptions.cro_rank, [4, 8, 16]),
    "cro_gap_eps": ten_to(3e-3, -3, -2),
    "cro_adv_lr": ten_to(FreeAdversaryOptions.cro_adv_lr, -3, -2),
    "cro_learner_lr": ten_to(3e-3, -3, -2),
    "cro_lambda_hausdorff": ten_to(FreeAdversaryOptions.cro_lambda_hausdorff, -1, 0),
    "cro_lambda_consist": ten_to(FreeAdversaryOptions.cro_lambda_consist, 1, 2),
    "cro_lambda_op": ten_to(FreeAdversaryOptions.cro_lambda_op, -1, 0),
    "cro_val_frac": choice(FreeAdversaryOptions.cro_val_frac, [0.1]),
    "cro_max_outer_iters": choice(10, [5, 10]),
    "cro_adv_epochs": choice(FreeAdversaryOptions.cro_adv_epochs, [5, 10]),
    "cro_learner_epochs": choice(10, [5, 10]),
    "cro_adv_batch": choice(FreeAdversaryOptions.cro_adv_batch, [32, 64]),
    "cro_learner_batch": choice(64, [32, 64]),
}


def default_surrogate(family: Family) -> SurrogateKind:
    """Return what the learner sees of a family's targets unless something else is asked for."""
    return "reweighted" if family == "hull" else "relabelled"


def game_space(family: Family, surrogate: SurrogateKind | None, n_classes: int) -> Space:
    """Return the hyperparameters of a game on trained features; None takes the usual surrogate."""
    kind = {"surrogate": constant(surrogate or default_surrogate(family))}
    if family == "free":
        return {**FREE_SPACE, **kind}
    # Heads of C classes differ in C - 1 directions: the whole hull.
    whole = {"cro_radius": constant(RADIUS), "cro_rank": constant(n_classes - 1)}
    return {**HULL_SPACE, **kind, **whole}


@dataclass(frozen=True)
class Played:
    """A game that has ended: its start and the answer of every round, as heads on [x, 1]."""

    heads: Tensor  # (rounds + 1, C, d + 1)
    outcome: GameOutcome


def play_hull_game(
    sources: SourceHeads,
    hparams: Mapping[str, Any],
    rank: int | None = None,
    surrogate: SurrogateKind = "reweighted",
) -> Played:
    """Play on the hull of the source heads; without a ``rank`` on all of it."""
    to_features, n_features = sources.whitening.to_features, len(sources.whitening.mean)
    # A rank above C - 1 adds nothing; but at r = d biorthogonality makes all abductions equal and
    # no target but the pool is left.
    radius = hparams["cro_radius"] if rank is None or rank < n_features else 0.0
    _, outcome = play_hull(
        sources,
        radius=radius,
        rank=rank and min(rank, len(sources.pooled) - 1),
        objective=hparams["objective"],
        surrogate=surrogate,
        ridge=hparams["ridge"],
        tolerance=hparams["cro_gap_eps"],
    )
    heads = sources.pooled, *outcome.heads[:-1], outcome.head
    return Played(torch.stack([to_features(head) for head in heads]), outcome)


def play_free_game(
    sources: SourceHeads,
    scaled: Standardized,
    start: Tensor,
    hparams: Mapping[str, Any],
    surrogate: SurrogateKind,
    seed: int,
) -> Played:
    """Play against the free adversary, from the head ``start`` on [x, 1]; ``seed`` is its own."""
    first = scaled.from_features(start)
    options = {name: value for name, value in hparams.items() if name in _FREE_OPTIONS}
    outcome = play(
        FreeAdversary(
            scaled.rows, sources.slices, first, FreeAdversaryOptions(**options), surrogate, seed
        ),
        Learner(ridge=sources.regularization.pooled_ridge),
        first,
        tolerance=hparams["cro_gap_eps"],
        max_rounds=hparams["cro_max_outer_iters"],
    )
    heads = [scaled.to_features(head) for head in (first, *outcome.heads)]
    return Played(torch.stack(heads), outcome)


@dataclass(frozen=True)
class PhaseOneResult:
    """The training rows in Phase 1's features, and its head; what runs share is computed once."""

    domains: Domains
    head: Tensor  # (C, d + 1) on [x, 1]

    @cached_property
    def sources(self) -> SourceHeads:
        """The source heads."""
        return fit_source_heads(self.domains)

    @cached_property
    def standardized(self) -> Standardized:
        """The rows in units of each feature's deviation."""
        return standardize(self.sources)


class HeadOnFeatures(Algorithm):
    """Base of what finds a head on Phase 1's features in one go, without steps."""

    has_steps = False

    def __init__(
        self,
        task: Task,
        hparams: Mapping[str, Any],
        generator: torch.Generator,
        *,
        phase1: PhaseOneResult,
    ) -> None:
        super().__init__(task, hparams, generator)
        self._phase1 = phase1

    def find_heads(self) -> Tensor:
        """Return heads (h, C, d + 1) on [x, 1], of which the last one counts."""
        raise NotImplementedError

    def conclude(self, sources: Iterable[tuple[int, Tensor, Tensor]]) -> None:
        """Find the heads; the rows are those of Phase 1's result."""
        self._heads = self.find_heads()

    def predict(self, x: Tensor) -> Tensor:
        """Return logits (n, C)."""
        return self.predict_all(x)[-1]

    def predict_all(self, x: Tensor) -> Tensor:
        """Return logits (h, n, C), of which the last ones count."""
        heads = self._heads
        logits = torch.einsum("nd,hcd->hnc", x.to(heads), heads[..., :-1])
        return logits + heads[:, None, :, -1]


class OwnHead(HeadOnFeatures):
    """ERM: Phase 1's own head."""

    def find_heads(self) -> Tensor:
        """Return it alone."""
        return self._phase1.head.double()[None]


class RefittedHead(HeadOnFeatures):
    """ERM, refitted: the pooled head, at which a game on the hull starts."""

    def find_heads(self) -> Tensor:
        """Return it alone."""
        sources = self._phase1.sources
        return sources.whitening.to_features(sources.pooled)[None]


class Game(HeadOnFeatures):
    """CRO: base of the games, whose records also say how they went."""

    def play(self) -> Played:
        """Play to the end."""
        raise NotImplementedError

    def find_heads(self) -> Tensor:
        """Return the start of the game and the answer of every round."""
        played = self.play()
        self._outcome = played.outcome
        return played.heads

    def summary(self) -> dict[str, Any]:
        """Return how long the game took and where it ended."""
        outcome = self._outcome
        return {
            "rounds": len(outcome.rounds),
            "value": outcome.rounds[-1].value,
            "gap": outcome.rounds[-1].gap,
            "worst_case": outcome.worst_value,
            "converged": outcome.converged,
        }


class HullGame(Game):
    """CRO on the hull of the source heads."""

    def play(self) -> Played:
        """Start at the pooled head."""
        hparams = self.hparams
        return play_hull_game(
            self._phase1.sources, hparams, hparams["cro_rank"], hparams["surrogate"]
        )


class FreeGame(Game):
    """CRO against the paper's own adversary."""

    def play(self) -> Played:
        """Start at Phase 1's head."""
        given, surrogate = self._phase1, self.hparams["surrogate"]
        return play_free_game(
            given.sources, given.standardized, given.head, self.hparams, surrogate, self.task.seed
        )
