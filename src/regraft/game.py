"""The learner-adversary game: Algorithm 1, with a duality gap instead of an oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regraft.adversary import Attack, Objective, Surrogates, attack
from regraft.learner import Learner
from regraft.newton import Solution, log_probabilities, losses

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Round:
    """What one round of the game added."""

    attack_value: float  # risk (regret) of the previous head on the adversary's new target
    value: float  # M_t: the learner's minimax value, ridge included
    gap: float  # duality gap of the learner's answer
    risks: tuple[float, ...]  # risk of the new head on each target so far
    sample_size: float  # effective sample size of the new target's surrogate


@dataclass(frozen=True)
class Outcome:
    """The end of a game."""

    head: Tensor  # (C, k)
    rounds: tuple[Round, ...]
    targets: Tensor  # (t, m) the adversary's targets, in the hull's coordinates
    mixture: Tensor  # (t,) the learner's dual weights: who binds
    worst: Attack  # the worst target of the final head over the whole ball
    converged: bool  # by the stop rule, and with the last answer within the gap asked for


def play(
    Z: Tensor,
    surrogates: Surrogates,
    start: Tensor,
    *,
    radius: float,
    ridge: float | Tensor,
    objective: Objective = "risk",
    tolerance: float = 1e-3,
    gap_tolerance: float = 1e-4,
    max_rounds: int = 50,
    on_round: Callable[[Round], None] | None = None,
) -> Outcome:
    """Refine the head ``start`` (C, k) on rows ``Z`` against the targets within ``radius``.

    Ends when ``t >= 2`` and the minimax value moved by at most ``tolerance``. (With the head
    frozen, the game is one attack: see :func:`regraft.auditing.audit`.)
    """
    y = surrogates.y
    learner = Learner(Z, y, ridge=ridge, objective=objective, tolerance=gap_tolerance)
    head, rounds, targets = start, list[Round](), list[Attack]()
    answer: Solution | None = None
    while True:
        loss = losses(log_probabilities(Z, head), y)
        found = attack(surrogates, loss, radius, objective, [target.z for target in targets])
        # The search compares with the target's own head; what is reported, with the best one.
        offset = learner.offset(found.weights, head)
        found = replace(found, value=float(found.weights @ loss) - offset)
        if _is_over(rounds, tolerance) or len(rounds) == max_rounds:
            break
        targets.append(found)
        learner.add(found.weights, offset)
        answer = learner.respond(head, answer)
        if rounds and answer.value < rounds[-1].value - rounds[-1].gap - _ROUNDING:
            raise RuntimeError(
                f"the minimax value fell from {rounds[-1].value:.6f} to {answer.value:.6f}, more "
                "than the duality gap: please report this with your data's shape."
            )
        head = answer.head
        rounds.append(
            Round(
                attack_value=found.value,
                value=answer.value,
                gap=answer.gap,
                risks=tuple(answer.risks.tolist()),
                sample_size=float(1 / found.weights.square().sum()),
            )
        )
        if on_round is not None:
            on_round(rounds[-1])
    assert answer is not None
    known = (answer.risks - learner.offsets).tolist()
    met = [replace(target, value=value) for target, value in zip(targets, known, strict=True)]
    return Outcome(
        head=head,
        rounds=tuple(rounds),
        targets=torch.stack([target.z for target in targets]),
        mixture=answer.mixture,
        worst=max([found, *met], key=lambda target: target.value),
        converged=_is_over(rounds, tolerance) and rounds[-1].gap <= gap_tolerance,
    )


def _is_over(rounds: list[Round], tolerance: float) -> bool:
    return len(rounds) >= 2 and abs(rounds[-1].value - rounds[-2].value) <= tolerance
