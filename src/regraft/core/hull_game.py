"""The game over the hull, and the step back from its answer towards ERM that noise allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Unpack

import torch
from torch import Tensor

from regraft.core.game import Adversary, GameOutcome, Round, Target, play
from regraft.core.heads import SourceHeads
from regraft.core.hull import Hull
from regraft.core.hull_adversary import HullOptions, make_hull_adversary
from regraft.core.learner import Learner
from regraft.core.newton import log_probabilities, losses
from regraft.core.surrogates import WeightedSample, stack_samples

_N_STEPS = 64  # equal steps from the pooled head to the learner's answer


def play_hull(
    sources: SourceHeads,
    *,
    radius: float,
    ridge: float | None = None,
    tolerance: float = 1e-3,
    max_rounds: int = 50,
    on_round: Callable[[Round], None] | None = None,
    **options: Unpack[HullOptions],
) -> tuple[Hull, GameOutcome]:
    """Play from the ERM head on against the targets within ``radius`` nats.

    Where rows keep their own labels, :func:`step_back` then moves the answer towards ERM.
    """
    hull, adversary = make_hull_adversary(sources, radius=radius, **options)
    keeps_labels = options.get("surrogate", "reweighted") == "reweighted"
    column_ridge = sources.learner_ridge(ridge)
    start = sources.pooled if ridge is None else _fit_erm(sources, column_ridge)
    outcome = play(
        adversary,
        Learner(ridge=column_ridge),
        start,
        tolerance=tolerance,
        max_rounds=max_rounds,
        on_round=on_round,
    )
    return hull, step_back(outcome, adversary, start) if keeps_labels else outcome


def _fit_erm(sources: SourceHeads, ridge: Tensor) -> Tensor:
    """Return the head of the smallest pooled risk under the learner's own ridge (k,)."""
    learner = Learner(ridge=ridge)
    learner.add(WeightedSample(sources.Z, sources.y, sources.weight))
    return learner.respond(sources.pooled).head


def step_back(outcome: GameOutcome, adversary: Adversary, start: Tensor) -> GameOutcome:
    """Move the answer towards the head ``start`` (C, k) while its worst case stays as good.

    "As good" means within one standard error of the answer's own worst case, which is not known any
    better. The freedom that is left goes to the risk on the sources, which ``start`` minimizes.
    """
    answer = outcome.head
    error = outcome.worst.sample.standard_error(answer)
    bound = outcome.worst_value + error
    targets = [*outcome.targets, outcome.worst]
    step = 0
    while True:
        step = _fewest_steps(targets, start, answer, bound, step)
        head = torch.lerp(start, answer, step / _N_STEPS)
        found = adversary.attack(head)
        value = found.sample.value(head)
        if value <= bound or step == _N_STEPS:
            break
        targets.append(found)
        step += 1
    return replace(
        outcome,
        head=head,
        worst=found,
        worst_value=value,
        share=step / _N_STEPS,
        standard_error=error,
    )


def _fewest_steps(
    targets: Sequence[Target], start: Tensor, answer: Tensor, bound: float, least: int
) -> int:
    """Return the fewest steps, ``least`` or more, at which no target's value exceeds ``bound``."""
    Z, y, weights = stack_samples([target.sample for target in targets])
    offsets = weights.new_tensor([target.sample.offset for target in targets])

    def exceeds(step: int) -> bool:
        head = torch.lerp(start, answer, step / _N_STEPS)
        values = weights @ losses(log_probabilities(Z, head), y) - offsets
        return float(values.max()) > bound

    # The largest value is convex along the way, and within the bound at the end: bisect.
    low, high = least - 1, _N_STEPS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    return high
