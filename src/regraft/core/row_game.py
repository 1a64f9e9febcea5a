"""The game over mixtures of hidden groups on all rows of a table, of which a sample was fitted.

What a sample of the rows decides are the searches: the regularization, the models of the groups and
the learner's ridge. All rows decide the heads, the guard and the certificate, by sums alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regraft.core.abduction import Groups
from regraft.core.game import GameOutcome, Round, Target, play
from regraft.core.group_targets import extreme_tilts
from regraft.core.guard import Advantage
from regraft.core.heads import SourceHeads
from regraft.core.latent_game import CV_TOLERANCE, LatentOutcome, column_ridge, find_doubt
from regraft.core.learner import Learner
from regraft.core.newton import WeightedRisks, minimize_largest_risk
from regraft.core.row_evidence import evidence_sums, group_sums, make_weights, paired_sums
from regraft.core.row_risks import RowBeliefs, RowFrame, RowRisks, RowWeights
from regraft.core.row_sums import RowSums, Sums
from regraft.core.surrogates import WeightedSample

_POOLED_TOLERANCE = 1e-9


@dataclass(frozen=True)
class FittedSample:
    """What a sample of the rows gave."""

    sources: SourceHeads
    groups: Groups
    outcome: LatentOutcome


@dataclass(frozen=True)
class SettledGame:
    """The head that all rows lead to, and what was measured on the way."""

    head: Tensor  # (C, k)
    pooled: Tensor  # (C, k) ERM's
    folds: Tensor  # (H, F, C, k) without each fold: like the head, and like ERM's if that differs
    reason: str  # why the head is ERM's; empty if it is not
    advantage: Advantage | None
    price: float | None
    game: GameOutcome | None
    frame: RowFrame
    weights: RowWeights  # of the extreme targets, then of each source
    mass: Tensor  # (V,) of the extreme targets before their weights sum to one
    purity: Tensor  # (V,)
    joint: Tensor  # (C, G) mass of each class and group
    group_rows: Tensor  # (G, d + 1) weighted sum of the rows of each group, in the frame


def settle_on_rows(
    rows: RowSums,
    counts: Tensor,
    sample: FittedSample,
    *,
    ridge: float | None = None,
    tolerance: float = 1e-3,
    max_rounds: int = 50,
    on_round: Callable[[Round], None] | None = None,
) -> SettledGame:
    """Fit heads to all rows and play the game on them, as :func:`play_latent` does in memory.

    ``counts`` (K, C) are the rows of each source and class. ``ridge`` is the learner's, if given.
    """
    sources, groups, found = sample.sources, sample.groups, sample.outcome
    frame = RowFrame.of(sources.whitening)
    beliefs = RowBeliefs.of(groups.models, groups.tells, len(frame.mean))
    extremes = extreme_tilts(groups.n_groups, found.targets.prior_shift)
    weights = make_weights(beliefs, counts, extremes)
    n_folds = len(sources.held_out.pooled)
    both = replace(weights, tilts=torch.cat([extremes, torch.ones_like(extremes[:1])]))
    masses, right, joint, group_rows = rows.sum(group_sums, frame, both, n_folds)
    outside = masses.sum(dim=0) - masses  # (F, V + 1)
    mass = masses.sum(dim=0)[:-1]
    plain = RowWeights(
        RowBeliefs.of(None, groups.tells, len(frame.mean)), weights.base, torch.ones(1, 1).double()
    )

    def risks(of: RowWeights) -> RowRisks:
        return RowRisks(rows, frame, of, len(of.tilts))

    def fit_folds(
        of: RowWeights,
        outside: Tensor,
        ridge: float | Tensor,
        starts: Sequence[Tensor],
        mixtures: Sequence[Tensor | None],
    ) -> Tensor:
        answers = [
            minimize_largest_risk(
                risks(of.tilted(of.tilts / outside[f].unsqueeze(1), without=f)),
                ridge=ridge,
                start=starts[f],
                mixture=mixtures[f],
                tolerance=CV_TOLERANCE,
            )
            for f in range(n_folds)
        ]
        return torch.stack([answer.head for answer in answers])

    pooled_ridge = sources.regularization.pooled_ridge
    pooled = minimize_largest_risk(
        risks(plain), ridge=pooled_ridge, start=sources.pooled, tolerance=_POOLED_TOLERANCE
    ).head
    pooled_folds = fit_folds(
        plain, outside[:, -1:], pooled_ridge, list(sources.held_out.pooled), [None] * n_folds
    )

    def settled(
        head: Tensor,
        folds: Sequence[Tensor],
        reason: str,
        advantage: Advantage | None = None,
        price: float | None = None,
        game: GameOutcome | None = None,
    ) -> SettledGame:
        return SettledGame(
            head,
            pooled,
            torch.stack(list(folds)),
            reason,
            advantage,
            price,
            game,
            frame,
            weights,
            mass,
            right[:-1] / mass,
            joint,
            group_rows,
        )

    if not found.answers or found.ridge is None:
        return settled(pooled, [pooled_folds], found.reason)
    learner_ridge = column_ridge(sources, found.ridge, ridge)
    answers = fit_folds(
        weights,
        outside[:, :-1],
        learner_ridge,
        [answer.head for answer in found.answers],
        [answer.mixture for answer in found.answers],
    )
    folds = [answers, pooled_folds]
    vertices = replace(weights, tilts=extremes / mass.unsqueeze(1))
    heads = frame.spread(torch.stack(folds))
    measured = rows.sum(evidence_sums, frame, heads, vertices)
    advantage = _compare(rows, frame, heads, vertices, measured[1][: len(mass)])
    price = float((measured[1][len(mass) :, 0] - measured[1][len(mass) :, 1]).mean())
    if doubt := find_doubt(advantage, price):
        return settled(pooled, [pooled_folds], doubt, advantage, price)
    every = risks(vertices.tilted(vertices.tilts))
    game = play(
        _RowAdversary(every, measured),
        _RowLearner(every, learner_ridge),
        pooled,
        tolerance=tolerance,
        max_rounds=max_rounds,
        on_round=on_round,
    )
    return settled(game.head, folds, "", advantage, price, game)


def _compare(
    rows: RowSums, frame: RowFrame, heads: Tensor, vertices: RowWeights, risks: Tensor
) -> Advantage:
    """Return the advantage of the first of two heads; ``risks`` (V, 2) are at the vertices."""
    value, baseline = risks.amax(dim=0).tolist()
    picks = risks.argmax(dim=0)
    worst = vertices.tilted(vertices.tilts[picks])
    [squares] = rows.sum(paired_sums, frame, heads, worst, risks.new_tensor([value, baseline]))
    return Advantage(baseline, value, float(squares.sqrt()))


@dataclass(frozen=True)
class RowSample(WeightedSample):
    """A target whose rows are not here, but its number among the extreme ones, and its sums."""

    number: int = 0
    size: float = 0.0
    measured: float = 0.0  # risk of the head that was attacked

    @property
    def effective_size(self) -> float:
        """Number of equally weighted rows that it is worth."""
        return self.size

    def value(self, head: Tensor) -> float:
        """Return the risk of the head that was attacked."""
        return self.measured


class _RowAdversary:
    """Exact adversary over mixtures of the groups."""

    def __init__(self, risks: RowRisks, measured: Sums) -> None:
        self._risks, self._sizes = risks, (1 / measured[0]).tolist()

    def attack(self, head: Tensor) -> Target:
        """Return the worst target for ``head`` (C, k); z says which groups it favours."""
        risks = self._risks.at(head).risks
        worst = int(risks.argmax())
        nothing = risks.new_empty(0)
        size, value = self._sizes[worst], float(risks[worst])
        return Target(
            RowSample(nothing, nothing, nothing, None, worst, size, value), torch.tensor([worst])
        )


class _RowLearner(Learner):
    """Learner against targets whose rows are not here."""

    def __init__(self, every: RowRisks, ridge: Tensor) -> None:
        super().__init__(ridge=ridge)
        self._every = every

    def _risks(self, start: Tensor) -> WeightedRisks:
        numbers = [each.number for each in self.samples if isinstance(each, RowSample)]
        weights = self._every.weights.tilted(self._every.weights.tilts[numbers])
        return replace(self._every, weights=weights, n_targets=len(numbers))
