"""The game over mixtures of hidden groups on all rows of a table, of which a sample was fitted.

What a sample of the rows decides are the searches: the regularization, the models of the groups and
the learner's ridge. All rows decide the heads, the guard and the certificate, by sums alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Unpack

import torch
from torch import Tensor

from regraft.core.abduction import Groups
from regraft.core.domains import count_cells
from regraft.core.game import GameOutcome, OnRound, Target, play
from regraft.core.group_targets import extreme_tilts
from regraft.core.guard import Advantage
from regraft.core.heads import SourceHeads
from regraft.core.latent_game import CV_TOLERANCE, LatentOutcome, column_ridge, find_doubt
from regraft.core.learner import Learner
from regraft.core.newton import (
    RisksAtHead,
    Search,
    SearchSettings,
    WeightedRisks,
    run_searches,
    search_head,
)
from regraft.core.row_evidence import evidence_sums, group_sums, make_weights, paired_sums
from regraft.core.row_risks import (
    CurvatureSample,
    Problem,
    RowBeliefs,
    RowFrame,
    RowRisks,
    RowsAtHead,
    RowWeights,
)
from regraft.core.row_sums import RowSums, Sums
from regraft.core.surrogates import WeightedSample

_POOLED_TOLERANCE = 1e-9


class FittedSample(NamedTuple):
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
    weights: RowWeights  # of the extreme targets
    mass: Tensor  # (V,) of the extreme targets before their weights sum to one
    purity: Tensor  # (V,)
    joint: Tensor  # (C, G) mass of each class and group
    group_rows: Tensor  # (G, d + 1) weighted sum of the rows of each group, in the frame

    def keep_pooled(self, reason: str) -> SettledGame:
        """Return the same with ERM's head, for a reason."""
        return replace(self, head=self.pooled, folds=self.folds[-1:], reason=reason, game=None)


def settle_on_rows(
    rows: RowSums,
    counts: Tensor,
    sample: FittedSample,
    *,
    ridge: float | None = None,
    tolerance: float = 1e-3,
    max_rounds: int = 50,
    on_round: OnRound = None,
) -> SettledGame:
    """Fit heads to all rows and play the game on them, as :func:`play_latent` does in memory.

    ``counts`` (K, C) are the rows of each source and class. ``ridge`` is the learner's, if given.
    """
    sources, groups, found = sample.sources, sample.groups, sample.outcome
    frame = RowFrame.of(sources.whitening)
    beliefs = RowBeliefs.of(groups.models, groups.tells, frame)
    extremes = extreme_tilts(groups.n_groups, found.targets.prior_shift)
    weights = make_weights(beliefs, counts, extremes)
    n_folds = len(sources.held_out.pooled)
    plain = torch.ones_like(extremes[:1])  # the pooled rows
    both = replace(weights, tilts=torch.cat([extremes, plain]))
    masses, right, joint, group_rows = rows.sum(group_sums, frame, both, n_folds)
    outside = masses.sum(dim=0) - masses  # (F, V + 1)
    mass = masses.sum(dim=0)[:-1]
    risks = RowRisks(rows, frame, weights, _curvature_sample(sample, counts))
    problems, searches = list[Problem](), list[Search]()

    def pose(problem: Problem, **settings: Unpack[SearchSettings]) -> None:
        problems.append(problem)
        searches.append(search_head((len(sources.y), len(problem.tilts)), **settings))

    pooled_ridge = sources.regularization.pooled_ridge
    pose(Problem(plain), ridge=pooled_ridge, start=sources.pooled, tolerance=_POOLED_TOLERANCE)
    for f, start in enumerate(sources.held_out.pooled):
        without = Problem(plain / outside[f, -1], f)
        pose(without, ridge=pooled_ridge, start=start, tolerance=CV_TOLERANCE)
    learner_ridge = column_ridge(sources, found.ridge or pooled_ridge, ridge)
    for f, answer in enumerate(found.answers):
        pose(
            Problem(extremes / outside[f, :-1, None], f),
            ridge=learner_ridge,
            start=answer.head,
            mixture=answer.mixture,
            tolerance=CV_TOLERANCE,
        )
    # Side by side, so that each pass over the rows serves all of them.
    solved = run_searches(searches, lambda asked: risks.at(asked, problems))
    pooled, *others = (solution.head for solution in solved)
    pooled_folds = torch.stack(others[:n_folds])

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

    if not found.answers:
        return settled(pooled, [pooled_folds], found.reason)
    folds = [torch.stack(others[n_folds:]), pooled_folds]
    vertices = replace(weights, tilts=extremes / mass.unsqueeze(1))
    heads = frame.spread(torch.stack(folds))
    measured = rows.sum(evidence_sums, frame, heads, vertices)
    advantage = _compare(rows, frame, heads, vertices, measured[1][: len(mass)])
    price = float((measured[1][len(mass) :, 0] - measured[1][len(mass) :, 1]).mean())
    if doubt := find_doubt(advantage, price):
        return settled(pooled, [pooled_folds], doubt, advantage, price)
    every = _Vertices(risks, Problem(vertices.tilts))
    adversary = _RowAdversary(every, measured)
    game = play(
        adversary,
        _RowLearner(every, learner_ridge, len(sources.y)),
        pooled,
        known=[adversary.target(number, 0.0) for number in range(len(mass))],
        near=folds[0].mean(dim=0),
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
    worst = replace(vertices, tilts=vertices.tilts[picks])
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


class _Vertices:
    """Risks of all extreme targets; what was asked last is remembered."""

    def __init__(self, risks: RowRisks, problem: Problem) -> None:
        self._risks, self._problem = risks, problem
        self._last: RowsAtHead | None = None

    def at(self, head: Tensor) -> RowsAtHead:
        """Return the sums over the rows at ``head`` (C, k)."""
        if self._last is None or self._last.head is not head:
            self._last = self._risks.at({0: head}, [self._problem])[0]
        return self._last


class _RowAdversary:
    """Exact adversary over mixtures of the groups."""

    def __init__(self, vertices: _Vertices, measured: Sums) -> None:
        self._vertices, self._sizes = vertices, (1 / measured[0]).tolist()

    def attack(self, head: Tensor) -> Target:
        """Return the worst target for ``head`` (C, k); z says which groups it favours."""
        risks = self._vertices.at(head).risks
        worst = int(risks.argmax())
        return self.target(worst, float(risks[worst]))

    def target(self, number: int, value: float) -> Target:
        """Return an extreme target, on which the head that was attacked has this risk."""
        nothing = torch.empty(0)
        sample = RowSample(nothing, nothing, nothing, None, number, self._sizes[number], value)
        return Target(sample, torch.tensor([number]))


@dataclass(frozen=True)
class _ChosenVertices:
    """Risks of some extreme targets."""

    vertices: _Vertices
    numbers: tuple[int, ...]
    n_rows: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, len(self.numbers)

    def at(self, head: Tensor) -> RisksAtHead:
        return self.vertices.at(head).of(self.numbers)


class _RowLearner(Learner):
    """Learner against targets whose rows are not here."""

    def __init__(self, vertices: _Vertices, ridge: Tensor, n_rows: int) -> None:
        super().__init__(ridge=ridge)
        self._vertices, self._n_rows = vertices, n_rows

    def _risks(self, start: Tensor) -> WeightedRisks:
        numbers = tuple(each.number for each in self.samples if isinstance(each, RowSample))
        return _ChosenVertices(self._vertices, numbers, self._n_rows)


def _curvature_sample(sample: FittedSample, counts: Tensor) -> CurvatureSample:
    """Return the sample, with the weights that its sources and classes have in all rows."""
    sources, shape = sample.sources, counts.shape
    drawn = count_cells(sources.domain, sources.y, *shape).clamp_min(1)
    rows = counts.sum(dim=1, keepdim=True)
    weight = counts / (len(counts) * rows * drawn).to(torch.float64)
    return CurvatureSample(
        sources.Z,
        sources.y,
        sample.groups.posterior,
        weight[sources.domain, sources.y],
        sources.held_out.fold,
    )
