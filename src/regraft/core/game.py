"""The learner-adversary game: Algorithm 1, with a duality gap instead of an oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from regraft.core.guard import Advantage
from regraft.core.learner import Learner
from regraft.core.newton import Solution
from regraft.core.surrogates import WeightedSample

_ROUNDING_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Target:
    """Plausible target proposed by an adversary."""

    sample: WeightedSample  # its surrogate distribution
    z: Tensor  # (m,) where it lies in the adversary's family


class Adversary(Protocol):
    """Family of plausible targets, with a search for the worst of them."""

    def attack(self, head: Tensor) -> Target:
        """Return the target on which ``head`` (C, k) does worst, as far as the search finds it."""
        ...


@dataclass(frozen=True)
class Round:
    """Results of one round of the game."""

    # Risks and regrets include the constants of their targets.
    attack_value: float  # risk (regret) of the previous head on the adversary's new target
    value: float  # M_t: the learner's minimax value, ridge included
    gap: float  # duality gap of the learner's answer
    risks: tuple[float, ...]  # risk (regret) of the new head on each target so far
    sample_size: float  # effective sample size of the new target's surrogate


OnRound = Callable[[Round], None] | None  # called after each round, for progress


@dataclass(frozen=True)
class GameOutcome:
    """Result of a finished game."""

    start: Tensor  # (C, k) the head that it began with
    heads: tuple[Tensor, ...]  # the learner's answer (C, k) of each round
    rounds: tuple[Round, ...]
    targets: tuple[Target, ...]
    mixture: Tensor  # (t,) the learner's dual weights, nonzero for binding targets
    head: Tensor  # (C, k) the final answer
    worst: Target  # the worst target found for it
    worst_value: float  # its risk (regret) there
    converged: bool  # the value settled, and the last answer reached the learner's gap
    advantage: Advantage | None = None  # of the last answer over the start, on rows held out
    answers: Tensor | None = None  # (F, C, k) like the final answer, without each fold of the rows
    starts: Tensor | None = None  # (F, C, k) like the start


def play(
    adversary: Adversary,
    learner: Learner,
    start: Tensor,
    *,
    known: Sequence[Target] = (),
    near: Tensor | None = None,
    tolerance: float = 1e-3,
    max_rounds: int = 50,
    on_round: OnRound = None,
) -> GameOutcome:
    """Refine the head ``start`` (C, k) by playing ``learner``, still empty, against ``adversary``.

    ``known`` are targets that the learner answers from the first round on, and ``near`` is a head
    from which it looks for its first answer.

    The game ends when there were two rounds or more and the last changed the minimax value by at
    most ``tolerance``. (With the head frozen, the game is a single attack: see
    :func:`regraft.estimators.audit.audit`.)
    """
    head, heads, rounds, targets = start, list[Tensor](), list[Round](), list(known)
    for target in known:
        learner.add(target.sample)
    answer: Solution | None = None
    while True:
        found = adversary.attack(head)
        found_value = found.sample.value(head)
        if _has_settled(rounds, tolerance) or len(rounds) == max_rounds:
            break
        if not any(torch.equal(found.z, target.z) for target in known):
            targets.append(found)
            learner.add(found.sample)
        if answer is None:
            answer = learner.respond(head if near is None else near)
        else:
            answer = learner.respond(head, answer.mixture)
        if rounds and answer.value < rounds[-1].value - rounds[-1].gap - _ROUNDING_TOLERANCE:
            raise RuntimeError(
                f"the minimax value fell from {rounds[-1].value:.6f} to {answer.value:.6f}, more "
                "than the duality gap: please report this with your data's shape."
            )
        head = answer.head
        heads.append(head)
        rounds.append(
            Round(
                attack_value=found_value,
                value=answer.value,
                gap=answer.gap,
                risks=tuple((answer.risks - learner.offsets).tolist()),
                sample_size=found.sample.effective_size,
            )
        )
        if on_round is not None:
            on_round(rounds[-1])
    assert answer is not None
    values = (answer.risks - learner.offsets).tolist()
    worst, worst_value = max(
        [(found, found_value), *zip(targets, values, strict=True)], key=lambda pair: pair[1]
    )
    return GameOutcome(
        start=start,
        heads=tuple(heads),
        rounds=tuple(rounds),
        targets=tuple(targets),
        mixture=answer.mixture,
        head=head,
        worst=worst,
        worst_value=worst_value,
        converged=_has_settled(rounds, tolerance) and rounds[-1].gap <= learner.tolerance,
    )


def _has_settled(rounds: list[Round], tolerance: float) -> bool:
    return len(rounds) >= 2 and abs(rounds[-1].value - rounds[-2].value) <= tolerance
