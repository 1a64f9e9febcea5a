"""The games of causal robust optimization, and other heads on features that Phase 1 has trained."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Any, Literal

import torch
from torch import Tensor

from regraft.bench.algorithms.base import Algorithm, Task
from regraft.bench.protocol.spaces import Space, choice, constant, ten_to
from regraft.core.abduction import Groups, find_groups, rows_of_sources
from regraft.core.domains import Domains
from regraft.core.free_adversary import FreeAdversary, FreeAdversaryOptions
from regraft.core.game import GameOutcome, play
from regraft.core.heads import SourceHeads, fit_source_heads
from regraft.core.hull_game import play_hull
from regraft.core.latent_game import play_latent
from regraft.core.learner import Learner
from regraft.core.standardization import Standardized, standardize
from regraft.core.surrogates import SurrogateKind

GameFamily = Literal["latent", "hull", "free"]
# Assumptions about the deployment, in nats, which no source validation can judge.
RADIUS = 8.0
PRIOR_SHIFT = None  # every mixture of the groups
_FREE_OPTIONS = frozenset(field.name for field in fields(FreeAdversaryOptions))

HULL_SPACE: Space = {
    "cro_gap_eps": ten_to(1e-3, -3, -2),
    "objective": choice("risk", ["risk", "regret"]),
    "ridge": ten_to(None, -5, -2),
}
LATENT_SPACE: Space = {name: HULL_SPACE[name] for name in ("cro_gap_eps", "ridge")}
# `tab:hp-search-phase2` by the name of the dataset: rounds and epochs of both players, then rows in
# a batch of either.
_PHASE_2: Mapping[str, tuple[list[int], list[int]]] = {
    "ColoredMNIST": ([5, 10], [32, 64]),
    "PACS": ([3, 5], [128, 256]),
    "OfficeHome": ([5, 10], [128, 256]),
}


def free_space(dataset: str) -> Space:
    """Return the ranges of `tab:hp-search-cro`, and of `tab:hp-search-phase2` for ``dataset``.

    Defaults are the most work that a range has. A learner that is solved does not read the three
    of its own.
    """
    passes, rows = _PHASE_2[dataset]
    return {
        "cro_rank": choice(FreeAdversaryOptions.cro_rank, [4, 8, 16]),
        "cro_gap_eps": ten_to(3e-3, -3, -2),
        "cro_adv_lr": ten_to(FreeAdversaryOptions.cro_adv_lr, -3, -2),
        "cro_learner_lr": ten_to(3e-3, -3, -2),
        "cro_lambda_hausdorff": ten_to(FreeAdversaryOptions.cro_lambda_hausdorff, -1, 0),
        "cro_lambda_consist": ten_to(FreeAdversaryOptions.cro_lambda_consist, 1, 2),
        "cro_lambda_op": ten_to(FreeAdversaryOptions.cro_lambda_op, -1, 0),
        "cro_val_frac": choice(FreeAdversaryOptions.cro_val_frac, [0.1]),
        "cro_max_outer_iters": choice(max(passes), passes),
        "cro_adv_epochs": choice(max(passes), passes),
        "cro_learner_epochs": choice(max(passes), passes),
        "cro_adv_batch": choice(max(rows), rows),
        "cro_learner_batch": choice(max(rows), rows),
    }


def default_surrogate(family: GameFamily) -> SurrogateKind:
    """Return what the learner sees of a family's targets unless something else is asked for."""
    return "relabelled" if family == "free" else "reweighted"


def game_space(
    family: GameFamily, surrogate: SurrogateKind | None, n_classes: int, dataset: str
) -> Space:
    """Return the hyperparameters of a game on trained features; None takes the usual surrogate."""
    kind = {"surrogate": constant(surrogate or default_surrogate(family))}
    if family == "free":
        return {**free_space(dataset), **kind}
    if family == "latent":
        return {**LATENT_SPACE, **kind, "cro_prior_shift": constant(PRIOR_SHIFT)}
    # Heads of C classes differ in C - 1 directions: the whole hull.
    whole = {"cro_radius": constant(RADIUS), "cro_rank": constant(n_classes - 1)}
    return {**HULL_SPACE, **kind, **whole}


@dataclass(frozen=True)
class FoundHeads:
    """Heads on [x, 1], of which the last one counts: of a game its start and every answer."""

    heads: Tensor  # (h, C, d + 1)
    outcome: GameOutcome | None = None  # of a game
    reason: str = ""  # why no game was kept, of the latent family

    def summary(self) -> dict[str, Any]:
        """Return how long the game took and where it ended."""
        outcome = self.outcome
        if outcome is None:
            return {"rounds": 0, "reason": self.reason} if self.reason else {}
        return {
            "rounds": len(outcome.rounds),
            "value": outcome.rounds[-1].value,
            "gap": outcome.rounds[-1].gap,
            "worst_case": outcome.worst_value,
            "converged": outcome.converged,
        }


def play_hull_game(
    sources: SourceHeads,
    hparams: Mapping[str, Any],
    rank: int | None = None,
    surrogate: SurrogateKind = "reweighted",
) -> FoundHeads:
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
    return FoundHeads(torch.stack([to_features(head) for head in heads]), outcome)


def play_latent_game(
    sources: SourceHeads, groups: Groups, hparams: Mapping[str, Any]
) -> FoundHeads:
    """Play over the mixtures of ``groups``, or keep the pooled head where that is as good."""
    found = play_latent(
        sources,
        groups,
        prior_shift=hparams["cro_prior_shift"],
        ridge=hparams["ridge"],
        tolerance=hparams["cro_gap_eps"],
    )
    # Where no game is kept the answer is the start, so that every run has both.
    answers = [sources.pooled] if found.game is None else found.game.heads
    heads = [sources.whitening.to_features(head) for head in (sources.pooled, *answers)]
    return FoundHeads(torch.stack(heads), found.game, found.reason)


@dataclass(frozen=True)
class PhaseOneResult:
    """The training rows in Phase 1's features, its head, and what heads share, computed once."""

    domains: Domains
    head: Tensor  # (C, d + 1) on [x, 1]

    @cached_property
    def sources(self) -> SourceHeads:
        """The source heads."""
        return fit_source_heads(self.domains)

    @cached_property
    def groups(self) -> Groups:
        """The hidden groups of the training rows."""
        return find_groups(rows_of_sources(self.sources))

    @cached_property
    def standardized(self) -> Standardized:
        """The rows in units of each feature's deviation."""
        return standardize(self.sources)

    def own_head(self, hparams: Mapping[str, Any], seed: int) -> FoundHeads:
        """Return Phase 1's head: ERM."""
        return FoundHeads(self.head.double()[None])

    def refit(self, hparams: Mapping[str, Any], seed: int) -> FoundHeads:
        """Return the pooled head, at which a game on the hull starts: ERM, refitted."""
        return FoundHeads(self.sources.whitening.to_features(self.sources.pooled)[None])

    def play_hull(self, hparams: Mapping[str, Any], seed: int) -> FoundHeads:
        """Play CRO's game on the hull, from the pooled head on; it draws nothing."""
        n_classes, n_features = len(self.head), self.head.shape[1] - 1
        rank = hparams["cro_rank"]
        if rank < n_features:  # from C - 1 on all are one game
            rank = min(rank, n_classes - 1)
        return self._play_hull(json.dumps({**hparams, "cro_rank": rank}, sort_keys=True))

    @cached_property
    def _play_hull(self) -> Callable[[str], FoundHeads]:
        """Plays on the hull with hyperparameters in JSON; the last game is not played again."""

        @lru_cache(maxsize=1)
        def play(hparams: str) -> FoundHeads:
            chosen = json.loads(hparams)
            return play_hull_game(self.sources, chosen, chosen["cro_rank"], chosen["surrogate"])

        return play

    def play_latent(self, hparams: Mapping[str, Any], seed: int) -> FoundHeads:
        """Play CRO's game over the mixtures of hidden groups, from the pooled head on."""
        return play_latent_game(self.sources, self.groups, hparams)

    def play_free(self, hparams: Mapping[str, Any], seed: int) -> FoundHeads:
        """Play CRO's game against the paper's own adversary, from Phase 1's head on."""
        scaled = self.standardized
        start = scaled.from_features(self.head)
        options = FreeAdversaryOptions(**{k: hparams[k] for k in hparams if k in _FREE_OPTIONS})
        surrogate = hparams["surrogate"]
        outcome = play(
            FreeAdversary(scaled.rows, self.sources.slices, start, options, surrogate, seed),
            Learner(ridge=self.sources.regularization.pooled_ridge),
            start,
            tolerance=hparams["cro_gap_eps"],
            max_rounds=hparams["cro_max_outer_iters"],
        )
        heads = [scaled.to_features(head) for head in (start, *outcome.heads)]
        return FoundHeads(torch.stack(heads), outcome)


Search = Callable[[Mapping[str, Any], int], FoundHeads]  # from hyperparameters and a seed


class HeadOnFeatures(Algorithm):
    """What ``find`` makes of Phase 1's features in one go, without steps."""

    has_steps = False

    def __init__(
        self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator, *, find: Search
    ) -> None:
        super().__init__(task, hparams, generator)
        self._find = find

    def conclude(self, sources: Iterable[tuple[int, Tensor, Tensor]]) -> None:
        """Find the heads; the rows are those of Phase 1's result."""
        self._found = self._find(self.hparams, self.task.seed)

    def predict(self, x: Tensor) -> Tensor:
        """Return logits (n, C)."""
        return self.predict_all(x)[-1]

    def predict_all(self, x: Tensor) -> Tensor:
        """Return logits (h, n, C), of which the last ones count."""
        heads = self._found.heads
        logits = torch.einsum("nd,hcd->hnc", x.to(heads), heads[..., :-1])
        return logits + heads[:, None, :, -1]

    def summary(self) -> dict[str, Any]:
        """Return how the game went, if there was one."""
        return self._found.summary()
