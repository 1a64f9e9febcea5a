"""The game over the hull, and the guard that keeps ERM's head where its answer is not better."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

import torch
from torch import Tensor

from regraft.core.game import Adversary, GameOutcome, OnRound, play
from regraft.core.guard import compare_worst_cases
from regraft.core.heads import SourceHeads
from regraft.core.hull import Hull
from regraft.core.hull_adversary import HullOptions, ReweightingHullAdversary, make_hull_adversary
from regraft.core.learner import Learner
from regraft.core.surrogates import WeightedSample


def play_hull(
    sources: SourceHeads,
    *,
    radius: float,
    ridge: float | None = None,
    tolerance: float = 1e-3,
    max_rounds: int = 50,
    on_round: OnRound = None,
    **options: Unpack[HullOptions],
) -> tuple[Hull, GameOutcome]:
    """Play from the ERM head on against the targets within ``radius`` nats.

    Where rows keep their own labels, the answer is taken only if answers to the same targets, found
    without each fold of the rows in turn, have a better worst case than ERM on the rows left out.
    """
    hull, adversary = make_hull_adversary(sources, radius=radius, **options)
    column_ridge = sources.learner_ridge(ridge)
    every = torch.arange(len(sources.y), device=sources.y.device)
    start = sources.pooled
    if ridge is not None:
        start = _fit_erm(sources, every, column_ridge, start)
    outcome = play(
        adversary,
        Learner(ridge=column_ridge),
        start,
        tolerance=tolerance,
        max_rounds=max_rounds,
        on_round=on_round,
    )
    others = [every[sources.held_out.fold != f] for f in range(len(sources.held_out.pooled))]
    starts = list(sources.held_out.pooled)
    if ridge is not None:
        near = [head + (start - sources.pooled) for head in starts]
        pairs = zip(others, near, strict=True)
        starts = [_fit_erm(sources, rows, column_ridge, head) for rows, head in pairs]
    outcome = replace(outcome, starts=torch.stack(starts))
    keeps_labels = isinstance(adversary, ReweightingHullAdversary)
    if keeps_labels and (radius == 0 or len(hull.directions) == 0):
        return hull, _keep_start(outcome, adversary)
    # Without a fold, the answer changes about as ERM's head does.
    answers = [
        answer_without(outcome, rows, len(every), column_ridge, outcome.head + (without - start))
        for rows, without in zip(others, starts, strict=True)
    ]
    outcome = replace(outcome, answers=torch.stack(answers))
    if not isinstance(adversary, ReweightingHullAdversary):
        return hull, outcome
    judged = (
        replace(sources.held_out, pooled=torch.stack(heads)).pooled_losses(sources.Z, sources.y)
        for heads in (starts, answers)
    )
    advantage = compare_worst_cases(*(adversary.worst_case(loss) for loss in judged))
    outcome = replace(outcome, advantage=advantage)
    return hull, outcome if advantage.is_clear else _keep_start(outcome, adversary)


def answer_without(
    outcome: GameOutcome, rows: Tensor, n_rows: int, ridge: float | Tensor, start: Tensor
) -> Tensor:
    """Return the learner's answer (C, k) to the targets of a game, made of some ``rows`` alone.

    ``start`` is a head near it.
    """
    learner = Learner(ridge=ridge)
    made: dict[int, tuple[Tensor, Tensor, Tensor]] = {}  # rows that targets share stay shared
    for target in outcome.targets:
        sample = target.sample
        if id(sample.Z) not in made:
            n_pairs = len(sample.y) // n_rows
            kept = torch.cat([rows + pair * n_rows for pair in range(n_pairs)])
            made[id(sample.Z)] = kept, sample.Z[kept], sample.y[kept]
        kept, Z, y = made[id(sample.Z)]
        weight = sample.weight[kept]
        constant = None if sample.constant is None else sample.constant[kept]
        learner.add(WeightedSample(Z, y, weight / weight.sum(), constant))
    return learner.respond(start, outcome.mixture).head


def _fit_erm(sources: SourceHeads, rows: Tensor, ridge: Tensor, near: Tensor) -> Tensor:
    """Return the head of the smallest risk on these rows, under the learner's own ridge (k,).

    ``near`` is a head from which it is looked for.
    """
    weight = sources.weight[rows]
    learner = Learner(ridge=ridge)
    learner.add(WeightedSample(sources.Z[rows], sources.y[rows], weight / weight.sum()))
    return learner.respond(near).head


def _keep_start(outcome: GameOutcome, adversary: Adversary) -> GameOutcome:
    """Return the outcome with the head that the game began with."""
    head = outcome.start
    found = adversary.attack(head)
    value = found.sample.value(head)
    return replace(outcome, head=head, worst=found, worst_value=value, answers=outcome.starts)
