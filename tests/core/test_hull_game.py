from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regraft.core.game import GameOutcome, play
from regraft.core.heads import SourceHeads
from regraft.core.hull import Objective
from regraft.core.hull_adversary import make_hull_adversary
from regraft.core.hull_game import play_hull, step_back
from regraft.core.learner import Learner
from regraft.core.surrogates import SurrogateKind, WeightedSample
from tests.helpers.problems import make_problem

RADIUS = 4.0


@cache
def _sources(k: int) -> SourceHeads:
    p = make_problem(1, n=600, classes=k, sources=k)
    return p.sources


@cache
def _played(k: int, objective: Objective) -> GameOutcome:
    sources = _sources(k)
    _, adversary = make_hull_adversary(sources, radius=RADIUS, objective=objective)
    return play(adversary, Learner(ridge=sources.learner_ridge(None)), sources.pooled)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("objective", ["risk", "regret"])
def test_the_head_is_on_the_way_and_within_a_standard_error(k: int, objective: Objective) -> None:
    sources, before = _sources(k), _played(k, objective)
    _, after = play_hull(sources, radius=RADIUS, objective=objective)
    expected = sources.pooled + after.share * (before.head - sources.pooled)
    assert torch.allclose(after.head, expected, atol=1e-12)
    assert 0 < after.share < 1
    assert after.standard_error == pytest.approx(before.worst.sample.standard_error(before.head))
    assert before.worst_value < after.worst_value <= before.worst_value + after.standard_error
    # The worst case of the head it names is found again by an adversary that knows nothing yet.
    _, fresh = make_hull_adversary(sources, radius=RADIUS, objective=objective)
    assert fresh.attack(after.head).sample.value(after.head) <= after.worst_value + 1e-3


@pytest.mark.parametrize("k", [2, 3])
def test_a_head_nearer_to_the_start_would_be_worse(k: int) -> None:
    sources = _sources(k)
    _, after = play_hull(sources, radius=RADIUS)
    before = _played(k, "risk")
    nearer = torch.lerp(sources.pooled, before.head, after.share - 1 / 64)
    _, adversary = make_hull_adversary(sources, radius=RADIUS)
    bound = before.worst_value + after.standard_error
    known = max(target.sample.value(nearer) for target in (*after.targets, after.worst))
    assert max(adversary.attack(nearer).sample.value(nearer), known) > bound - 1e-3


@given(st.sampled_from([2, 3]), st.floats(0.0, 1.0))
def test_sources_lose_less_than_under_the_answer_itself(k: int, share: float) -> None:
    """The pooled risk plus ridge is convex and smallest at the start."""
    sources, before = _sources(k), _played(k, "risk")
    ridge = sources.regularization.pooled_ridge

    def objective(head: torch.Tensor) -> float:
        loss = torch.nn.functional.cross_entropy(sources.Z @ head.T, sources.y, reduction="none")
        return float(sources.weight @ loss + ridge * head.square().sum())

    between = torch.lerp(sources.pooled, before.head, share)
    assert objective(sources.pooled) <= objective(between) + 1e-6
    assert objective(between) <= objective(before.head) + 1e-6


def test_no_step_back_from_a_certain_answer() -> None:
    """Where the worst case has no error, only the answer itself is as good."""
    sources, before = _sources(2), _played(2, "risk")
    _, adversary = make_hull_adversary(sources, radius=RADIUS)
    one = torch.zeros_like(before.worst.sample.weight)
    one[0] = 1.0  # all the weight on one row: nothing varies
    certain = replace(before.worst.sample, weight=one)
    outcome = replace(before, worst=replace(before.worst, sample=certain))
    assert step_back(outcome, adversary, sources.pooled).share == 1.0


def test_radius_zero_is_the_pooled_head() -> None:
    sources = _sources(3)
    _, outcome = play_hull(sources, radius=0.0)
    assert torch.equal(outcome.head, sources.pooled)
    assert outcome.share == 0.0


@pytest.mark.parametrize("ridge", [1e-4, 1e-1, 10.0])
def test_a_ridge_of_ones_own_has_an_erm_head_of_its_own(ridge: float) -> None:
    sources = _sources(3)
    _, none = play_hull(sources, radius=0.0, ridge=ridge)
    learner = Learner(ridge=sources.learner_ridge(ridge))
    learner.add(WeightedSample(sources.Z, sources.y, sources.weight))
    assert torch.allclose(none.head, learner.respond(sources.pooled).head, atol=1e-6)


def test_stronger_ridges_shrink_the_head() -> None:
    sizes = [
        float(play_hull(_sources(3), radius=RADIUS, ridge=ridge)[1].head[:, :-1].norm())
        for ridge in (1e-3, 1e-1, 10.0)
    ]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("surrogate", ["relabelled", "transplanted"])
def test_soft_labels_are_not_stepped_back_from(surrogate: SurrogateKind) -> None:
    _, outcome = play_hull(_sources(2), radius=1.0, surrogate=surrogate, tolerance=1e-2)
    assert outcome.share == 1.0 and outcome.head is outcome.heads[-1]
