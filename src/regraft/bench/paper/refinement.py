"""Phase 2: the game on cached features, one configuration after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regraft.bench.paper.hparams import default_surrogate
from regraft.core.certificate import Family
from regraft.core.domains import Domains, check_domains
from regraft.core.free_adversary import FreeAdversary, FreeAdversaryOptions
from regraft.core.game import GameOutcome, play
from regraft.core.heads import SourceHeads, fit_source_heads
from regraft.core.hull_game import play_hull
from regraft.core.learner import Learner
from regraft.core.standardization import Standardized, standardize
from regraft.core.surrogates import SurrogateKind

RADIUS = 8.0  # nats; an assumption, the same for all configurations
ERM, REFITTED = "ERM", "ERM, refitted"  # the heads without a game
_FREE_OPTIONS = frozenset(field.name for field in fields(FreeAdversaryOptions))


@dataclass(frozen=True)
class Features:
    """What Phase 1 leaves to Phase 2. Tuples have one entry per environment."""

    X: tuple[Tensor, ...]  # (n_i, d) features, on the CPU
    y: tuple[Tensor, ...]
    rows_in: tuple[Tensor, ...]  # the rows that are trained on, in source environments
    rows_out: tuple[Tensor, ...]  # the others
    head: Tensor  # (C, d + 1) Phase 1's head on [x, 1]
    test_env: int

    @property
    def sources(self) -> list[int]:
        """The environments that may be trained on."""
        return [env for env in range(len(self.X)) if env != self.test_env]

    def domains(self, device: str = "cpu") -> Domains:
        """The training rows of the sources, validated."""
        sizes = [len(self.rows_in[env]) for env in self.sources]
        X = torch.cat([self.X[env][self.rows_in[env]] for env in self.sources])
        y = torch.cat([self.y[env][self.rows_in[env]] for env in self.sources])
        domain = np.repeat(self.sources, sizes)
        return check_domains(X.double().numpy(), y.numpy(), domain, device=device)


class Refinement:
    """The games of one Phase-1 checkpoint; what its configurations share is computed once.

    Without a ``surrogate`` it is the family's default.
    """

    def __init__(
        self,
        features: Features,
        *,
        family: Family = "hull",
        surrogate: SurrogateKind | None = None,
        device: str = "cpu",
    ) -> None:
        self._features, self._device = features, device
        self._family, self._surrogate = family, surrogate or default_surrogate(family)

    def run(self, hparams: Mapping[str, Any], seed: int = 0) -> dict[str, Any]:
        """Play one configuration; what a record says of it.

        ``seed`` is the free adversary's. The hull draws nothing, and without a ``cro_rank`` it has
        rank 1, which is all of it for two classes.
        """
        start, outcome, heads = (
            self._play_hull(hparams) if self._family == "hull" else self._play_free(hparams, seed)
        )
        accuracies = score(self._features, torch.stack([start, *heads]))
        return {
            "step": len(outcome.rounds),
            **{name: values[-1] for name, values in accuracies.items()},
            "checkpoints": self._checkpoints(accuracies),
            "rounds": len(outcome.rounds),
            "value": outcome.rounds[-1].value,
            "gap": outcome.rounds[-1].gap,
            "worst_case": outcome.worst_value,
            "converged": outcome.converged,
        }

    def baselines(self) -> dict[str, dict[str, float]]:
        """Accuracies without a game: of Phase 1's own head, and of one refitted to its features.

        The second is the pooled head, at which a game on the hull starts.
        """
        refitted = self._sources.whitening.to_features(self._sources.pooled)
        accuracies = score(
            self._features, torch.stack([self._features.head.to(refitted), refitted])
        )
        return {
            name: {key: values[i] for key, values in accuracies.items()}
            for i, name in enumerate((ERM, REFITTED))
        }

    def _play_hull(self, hparams: Mapping[str, Any]) -> tuple[Tensor, GameOutcome, list[Tensor]]:
        sources = self._sources
        rank = hparams.get("cro_rank", 1)
        # Heads of C classes differ in C - 1 directions, so a larger r adds nothing; but at r = d
        # biorthogonality makes all abductions equal and no target but the pool is left.
        radius = RADIUS if rank < self._features.X[0].shape[1] else 0.0
        _, outcome = play_hull(
            sources,
            radius=radius,
            rank=min(rank, len(sources.pooled) - 1),
            objective=hparams["objective"],
            surrogate=self._surrogate,
            ridge=hparams["ridge"],
            tolerance=hparams["cro_gap_eps"],
        )
        to_features = sources.whitening.to_features
        heads = [to_features(h) for h in (*outcome.heads[:-1], outcome.head)]
        return to_features(sources.pooled), outcome, heads

    def _play_free(
        self, hparams: Mapping[str, Any], seed: int
    ) -> tuple[Tensor, GameOutcome, list[Tensor]]:
        sources, scaled = self._sources, self._standardized
        options = {name: value for name, value in hparams.items() if name in _FREE_OPTIONS}
        start = scaled.from_features(self._features.head.to(self._device))
        adversary = FreeAdversary(
            scaled.rows,
            sources.slices,
            start,
            FreeAdversaryOptions(**options),
            self._surrogate,
            seed,
        )
        outcome = play(
            adversary,
            Learner(ridge=sources.regularization.pooled_ridge),
            start,
            tolerance=hparams["cro_gap_eps"],
            max_rounds=hparams["cro_max_outer_iters"],
        )
        to_features = scaled.to_features
        return to_features(start), outcome, [to_features(h) for h in outcome.heads]

    @cached_property
    def _sources(self) -> SourceHeads:
        return fit_source_heads(self._features.domains(self._device))

    @cached_property
    def _standardized(self) -> Standardized:
        return standardize(self._sources)

    def _checkpoints(self, accuracies: Mapping[str, list[float]]) -> list[dict[str, Any]]:
        """Error rates after every round, the start included: the mean source's, the target's."""
        out = [accuracies[f"env{i}_out_acc"] for i in self._features.sources]
        target = accuracies[f"env{self._features.test_env}_in_acc"]
        return [
            {"step": step, "source_risk": 1 - sum(source) / len(source), "target_risk": 1 - aim}
            for step, (*source, aim) in enumerate(zip(*out, target, strict=True))
        ]


def score(features: Features, heads: Tensor) -> dict[str, list[float]]:
    """Accuracy of each head (h, C, d + 1) on both parts of every environment."""
    accuracies = {}
    for env, (X, y) in enumerate(zip(features.X, features.y, strict=True)):
        rows = X.to(heads)
        logits = torch.einsum("nd,hcd->hnc", rows, heads[..., :-1]) + heads[:, None, :, -1]
        correct = (logits.argmax(dim=2).cpu() == y).double()
        for part, index in (("in", features.rows_in[env]), ("out", features.rows_out[env])):
            accuracies[f"env{env}_{part}_acc"] = correct[:, index].mean(dim=1).tolist()
    return accuracies
