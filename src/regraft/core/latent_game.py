"""The game over mixtures of hidden groups, and the guard that keeps ERM's head where it must.

The learner's ridge has the smallest worst case on rows held out. Its head is kept only if its
held-out worst case beats ERM's by more than two paired standard errors, and by more than it costs
on the pooled sources: where domains merely differ, the price is the larger of the two. It must not
promise a lower accuracy than ERM's head either, and must be better than guessing in every group.
Within each class the sources must be mixtures of the groups: if they are not, a new domain need not
be one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regraft.core.abduction import Groups
from regraft.core.cell_accuracy import beats_guessing
from regraft.core.evidence import Evidence, HeldOutRows, judge
from regraft.core.game import GameOutcome, OnRound, Target, play
from regraft.core.group_evidence import GroupMeasurements
from regraft.core.group_targets import GroupAdversary, GroupTargets
from regraft.core.guard import NOT_BETTER, Advantage, WorstCase, compare_worst_cases
from regraft.core.heads import SourceHeads
from regraft.core.learner import Learner
from regraft.core.many_classes import MANY_CLASSES, take_classes
from regraft.core.newton import Solution, minimax_newton
from regraft.core.source_mixtures import find_outside
from regraft.core.surrogates import WeightedSample

# From this ridge the search goes to weaker ones, or to stronger ones if those do not help.
_FIRST_RIDGE = 1e-2
_WEAKER = (3e-3, 1e-3, 3e-4, 1e-4)
_STRONGER = (3e-2, 1e-1, 3e-1)
CV_TOLERANCE = 3e-4
_MAX_RIDGE_ROWS = 50_000

NO_FACTOR = "no hidden factor was found"
NO_OVERLAP = "a group is held by fewer than two sources, so the groups may be the sources"
NOT_WORTH = "the robust model costs more on the sources than it gains in the worst domain"
PROMISES_LESS = "the robust model promises fewer right answers in the worst domain"
SAYS_NOTHING = (
    "apart from the hidden factor, the features say nothing about the label that holds in every "
    "group"
)
NOT_MIXTURES = (
    "a source is no mixture of the groups found, so the new domain need not be one either"
)


@dataclass(frozen=True)
class LatentOutcome:
    """Head of the game over the groups, or ERM's with the reason for it."""

    head: Tensor  # (C, k)
    targets: GroupTargets
    measured: GroupMeasurements  # in these targets
    held_out: HeldOutRows  # of the head that is returned
    pooled: HeldOutRows  # of ERM's head
    reason: str  # why the head is ERM's; empty if it is not
    advantage: Advantage | None  # of the game's head over ERM's; None if no game was played
    price: float | None  # by how much the risk of the game's head on the pooled rows is larger
    ridge: float | None  # chosen for the learner
    game: GameOutcome | None  # None where the head is ERM's
    answers: tuple[Solution, ...] = ()  # like the game's, fitted without each fold of the rows
    outside: tuple[int, ...] = ()  # sources that are no mixtures, if that is the reason


def play_latent(
    sources: SourceHeads,
    groups: Groups,
    *,
    prior_shift: float | None = None,
    class_groups: bool = False,
    ridge: float | None = None,
    tolerance: float = 1e-3,
    max_rounds: int = 50,
    on_round: OnRound = None,
) -> LatentOutcome:
    """Play from the ERM head on against all mixtures of ``groups`` of the same rows.

    ``ridge`` is the learner's; None chooses it.
    """
    targets = GroupTargets(
        groups.posterior,
        sources.weight,
        sources.y,
        len(sources.pooled),
        prior_shift,
        class_groups,
        groups.told(sources.y),
    )
    pooled = judge_folds(sources, sources.held_out.pooled)
    measured = GroupMeasurements(targets)

    def keep_erm(
        reason: str,
        advantage: Advantage | None = None,
        price: float | None = None,
        ridge: float | None = None,
        answers: tuple[Solution, ...] = (),
        outside: tuple[int, ...] = (),
    ) -> LatentOutcome:
        return LatentOutcome(
            head=sources.pooled,
            targets=targets,
            measured=measured,
            held_out=pooled,
            pooled=pooled,
            reason=reason,
            advantage=advantage,
            price=price,
            ridge=ridge,
            game=None,
            answers=answers,
            outside=outside,
        )

    if groups.n_groups == 1:
        return keep_erm(NO_FACTOR)
    if not groups.overlap:
        return keep_erm(NO_OVERLAP)
    known = _known_targets(sources, targets, tolerance, max_rounds)
    vertices = torch.stack([target.sample.weight for target in known])
    answers, chosen = _cross_fit(sources, targets, vertices, ridge)
    held_out = judge_folds(sources, _heads(answers))
    worst = [WorstCase(targets.worst(each.loss)[0], each.loss) for each in (pooled, held_out)]
    advantage = compare_worst_cases(*worst)
    price = float(targets.base @ (held_out.loss - pooled.loss))
    decided = advantage, price, chosen, answers
    if doubt := find_doubt(advantage, price):
        return keep_erm(doubt, *decided)
    if doubt := doubt_promise(measured.in_targets(held_out), measured.in_targets(pooled)):
        return keep_erm(doubt, *decided)
    doubt, outside = doubt_rows(sources, groups, targets, held_out)
    if doubt:
        return keep_erm(doubt, *decided, outside)
    game = play(
        GroupAdversary(sources.Z, targets),
        Learner(ridge=column_ridge(sources, chosen, ridge)),
        sources.pooled,
        known=known,
        near=_heads(answers).mean(dim=0),
        tolerance=tolerance,
        max_rounds=max_rounds,
        on_round=on_round,
    )
    return LatentOutcome(
        game.head, targets, measured, held_out, pooled, "", advantage, price, chosen, game, answers
    )


def name_outside(reason: str, outside: Sequence[int], names: Sequence[str]) -> str:
    """Add the names of the sources that are the reason why the head is ERM's, if any are."""
    return f"{reason} ({', '.join(names[i] for i in outside)})" if outside else reason


def find_doubt(advantage: Advantage, price: float) -> str:
    """Return the reason not to take the game's head; empty if there is none."""
    if not advantage.is_clear:
        return NOT_BETTER
    return NOT_WORTH if advantage.gain <= price else ""


def doubt_promise(own: Sequence[Evidence], pooled: Sequence[Evidence]) -> str:
    """Return whether the game's head promises less than ERM's in the extreme targets; or nothing.

    ``own`` is the evidence of the game's head there, and ``pooled`` that of ERM's.
    """
    promise, of_pooled = (min(each.accuracy_bound for each in head) for head in (own, pooled))
    return PROMISES_LESS if promise < of_pooled else ""


def doubt_rows(
    sources: SourceHeads, groups: Groups, targets: GroupTargets, held_out: HeldOutRows
) -> tuple[str, tuple[int, ...]]:
    """Return what the game's head does on rows held out that speaks against it; or nothing.

    Where the reason is that sources are no mixtures of the groups, their numbers come with it.
    """
    if not beats_guessing(targets, held_out):
        return SAYS_NOTHING, ()
    outside = find_outside(sources, groups, held_out)
    return (NOT_MIXTURES, outside) if outside else ("", ())


def column_ridge(sources: SourceHeads, chosen: float, given: float | None) -> Tensor:
    """Return the learner's ridge of each column (k,): chosen by the game, or given by the user."""
    if given is not None:
        return sources.learner_ridge(given)
    return torch.full_like(sources.pooled[0], chosen)


def judge_folds(sources: SourceHeads, heads: Tensor) -> HeldOutRows:
    """Judge each row by that of the heads (F, C, k) which has not seen it."""
    return judge(sources.held_out.log_probabilities(heads, sources.Z), sources.y)


def _stride(n_rows: int, n_folds: int) -> int:
    """Return the step between the rows that choose a ridge; 1 takes all of them.

    Rows are dealt to the folds in turn, so a multiple of their number would take one fold only.
    """
    stride = max(1, n_rows // _MAX_RIDGE_ROWS)
    return stride + 1 if stride % n_folds == 0 else stride


def _thin(sources: SourceHeads, targets: GroupTargets) -> tuple[SourceHeads, GroupTargets]:
    """Return every so many-th row of very many, which are enough to choose a ridge.

    The rows are sorted by source, class and distance from the mean, so this is a fair sample.
    """
    stride = slice(None, None, _stride(len(sources.y), len(sources.held_out.pooled)))
    weight = sources.weight[stride] / sources.weight[stride].sum()
    y, fold = sources.y[stride], sources.held_out.fold[stride]
    fewer = replace(
        sources,
        Z=sources.Z[stride],
        y=y,
        weight=weight,
        row_weight=sources.row_weight[stride],
        held_out=replace(sources.held_out, fold=fold),
    )
    told = None if targets.told is None else targets.told[stride]
    return fewer, replace(targets, belief=targets.belief[stride], base=weight, y=y, told=told)


def _known_targets(
    sources: SourceHeads, targets: GroupTargets, tolerance: float, max_rounds: int
) -> tuple[Target, ...]:
    """Return extreme targets: all of them, or those that a game meets if they are many."""
    if not targets.class_groups:
        return tuple(
            Target(WeightedSample(sources.Z, sources.y, weight), torch.tensor([number]))
            for number, weight in enumerate(targets.blocks[0])
        )
    return play(
        GroupAdversary(sources.Z, targets),
        Learner(ridge=sources.learner_ridge(None)),
        sources.pooled,
        tolerance=tolerance,
        max_rounds=max_rounds,
    ).targets


def _cross_fit(
    sources: SourceHeads, targets: GroupTargets, vertices: Tensor, given: float | None
) -> tuple[tuple[Solution, ...], float]:
    """Return minimax answers, each fitted without a fold, and the ridge they have."""
    chosen, heads = given, sources.held_out.pooled
    if targets.n_classes > MANY_CLASSES:
        sources = replace(sources, Z=sources.Z.float())  # enough for the tolerance
        chosen = _choose_ridge_by_some(sources, targets, vertices) if given is None else given
    if chosen is None:
        fewer, thinned = _thin(sources, targets)
        stride = _stride(len(sources.y), len(heads))
        chosen, answers = _choose_ridge(fewer, thinned, vertices[:, ::stride])
        if stride == 1:
            return answers, chosen
        heads = _heads(answers)
    return _fit_folds(sources, vertices, column_ridge(sources, chosen, given), heads), chosen


def _choose_ridge_by_some(sources: SourceHeads, targets: GroupTargets, vertices: Tensor) -> float:
    """Return a ridge for very many classes, chosen on the rows of some of them."""
    some = take_classes(sources.y, targets.n_classes)
    kept, held_out = some.rows, sources.held_out
    base, weights = targets.base[kept], vertices[:, kept]
    fewer = replace(
        sources,
        Z=sources.Z[kept],
        y=some.y,
        held_out=replace(
            held_out, fold=held_out.fold[kept], pooled=held_out.pooled[:, some.classes]
        ),
    )
    thinned = replace(
        targets,
        belief=targets.belief[kept],
        base=base / base.sum(),
        y=some.y,
        n_classes=len(some.classes),
        told=None if targets.told is None else targets.told[kept],
    )
    smallest = torch.finfo(weights.dtype).tiny
    weights = weights / weights.sum(dim=1, keepdim=True).clamp_min(smallest)
    return some.share * _choose_ridge(fewer, thinned, weights)[0]


def _heads(answers: Sequence[Solution]) -> Tensor:
    """Return the heads (F, C, k) of answers."""
    return torch.stack([answer.head for answer in answers])


def _choose_ridge(
    sources: SourceHeads, targets: GroupTargets, vertices: Tensor
) -> tuple[float, tuple[Solution, ...]]:
    """Return the ridge of the smallest held-out worst case, and its answers without each fold."""
    heads = sources.held_out.pooled
    best: tuple[float, float, tuple[Solution, ...]] | None = None

    def try_ridges(ridges: Sequence[float]) -> None:
        nonlocal best, heads
        for ridge in ridges:
            answers = _fit_folds(sources, vertices, column_ridge(sources, ridge, None), heads)
            heads = _heads(answers)
            loss = judge_folds(sources, heads).loss
            worst = float(targets.worst(loss)[0] @ loss)
            if best is not None and worst >= best[0]:
                return
            best = worst, ridge, answers

    try_ridges([_FIRST_RIDGE, *_WEAKER])
    assert best is not None
    if best[1] == _FIRST_RIDGE:
        try_ridges(_STRONGER)
    return best[1], best[2]


def _fit_folds(
    sources: SourceHeads, vertices: Tensor, ridge: Tensor, starts: Tensor
) -> tuple[Solution, ...]:
    """Return the minimax answers over the vertices, without each fold, from heads (F, C, k) on."""
    answers = []
    for f, start in enumerate(starts):
        rows = (sources.held_out.fold != f).nonzero().squeeze(1)
        weights = vertices[:, rows]
        weights = weights / weights.sum(dim=1, keepdim=True)
        solution = minimax_newton(
            sources.Z[rows],
            sources.y[rows],
            weights,
            ridge=ridge,
            start=start,
            tolerance=CV_TOLERANCE,
        )
        answers.append(solution)
    return tuple(answers)
