"""The game over the hull, and the guard that keeps ERM's head where it must."""

from functools import cache

import numpy as np
import pytest
import torch

from regraft.core.domains import check_domains
from regraft.core.game import GameOutcome, play
from regraft.core.heads import SourceHeads, fit_source_heads
from regraft.core.hull import Objective, attack, plausible_targets
from regraft.core.hull_adversary import make_hull_adversary
from regraft.core.hull_game import play_hull
from regraft.core.learner import Learner
from regraft.core.newton import log_probabilities, losses, minimax_newton
from regraft.core.surrogates import SurrogateKind, WeightedSample
from tests.helpers.problems import make_problem

RADIUS = 4.0


@cache
def _sources(k: int) -> SourceHeads:
    return make_problem(1, n=600, classes=k, sources=k).sources


@cache
def _guarded(k: int, objective: Objective) -> GameOutcome:
    return play_hull(_sources(k), radius=RADIUS, objective=objective)[1]


def _alike(seed: int) -> SourceHeads:
    """Return sources that are random halves of one population."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((300, 6))
    y = (X[:, 0] + rng.standard_normal(300) > 0).astype(int)
    return fit_source_heads(check_domains(X, y, rng.permutation(300) % 2))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("objective", ["risk", "regret"])
def test_on_confounded_sources_the_head_is_the_games(k: int, objective: Objective) -> None:
    sources, outcome = _sources(k), _guarded(k, objective)
    _, adversary = make_hull_adversary(sources, radius=RADIUS, objective=objective)
    unguarded = play(adversary, Learner(ridge=sources.learner_ridge(None)), sources.pooled)
    assert torch.equal(outcome.head, unguarded.head)
    assert outcome.worst_value == unguarded.worst_value
    assert outcome.advantage is not None and outcome.advantage.is_clear


# Of such halves about a third pass the guard all the same: 8 nats is far outside what they show,
# and there the game's head does better.
@pytest.mark.parametrize("seed", [0, 1, 6])
def test_where_sources_are_alike_the_head_is_erms_exactly(seed: int) -> None:
    sources = _alike(seed)
    _, outcome = play_hull(sources, radius=8.0)
    assert outcome.head is sources.pooled
    assert outcome.advantage is not None and not outcome.advantage.is_clear
    # The worst case that is told belongs to this head, not to the game's.
    assert outcome.worst_value == outcome.worst.sample.value(sources.pooled)
    assert outcome.worst_value >= outcome.rounds[0].attack_value
    # Under a ridge of one's own, it is the head of that ridge.
    _, own = play_hull(sources, radius=8.0, ridge=0.1)
    assert own.head is own.start and not torch.equal(own.head, sources.pooled)


@pytest.mark.parametrize("objective", ["risk", "regret"])
def test_the_advantage_is_that_of_answers_without_each_fold(objective: Objective) -> None:
    """Answer the game's targets without each fold, and pair the losses by hand."""
    sources, outcome = _sources(2), _guarded(2, objective)
    advantage = outcome.advantage
    assert advantage is not None
    _, rows = plausible_targets(sources)
    loss = {"erm": torch.empty_like(sources.weight), "game": torch.empty_like(sources.weight)}
    for f, start in enumerate(sources.held_out.pooled):
        kept = (sources.held_out.fold != f).nonzero().squeeze(1)
        left_out = sources.held_out.fold == f
        weights = torch.stack([target.sample.weight[kept] for target in outcome.targets])
        weights = weights / weights.sum(dim=1, keepdim=True)
        constants = torch.stack([target.sample.constant[kept] for target in outcome.targets])
        head = minimax_newton(
            sources.Z[kept],
            sources.y[kept],
            weights,
            ridge=sources.learner_ridge(None),
            start=start,
            offsets=-(weights * constants).sum(dim=1),
            tolerance=1e-4,
        ).head
        for name, each in (("erm", start), ("game", head)):
            log_p = log_probabilities(sources.Z[left_out], each)
            loss[name][left_out] = losses(log_p, sources.y[left_out])
    influence = {}
    for name, told in (("erm", advantage.baseline), ("game", advantage.value)):
        found = attack(rows, loss[name], RADIUS, objective)
        assert told == pytest.approx(found.value, abs=1e-4)
        own = rows.own_losses(found.z) if objective == "regret" else 0.0
        influence[name] = found.weights * (loss[name] - own - found.value)
    error = float((influence["erm"] - influence["game"]).norm())
    assert advantage.standard_error == pytest.approx(error, rel=1e-2)


def test_radius_zero_is_the_pooled_head_or_that_of_ones_own_ridge_and_ridges_shrink() -> None:
    sources, sizes = _sources(2), []
    _, outcome = play_hull(sources, radius=0.0)
    assert outcome.head is sources.pooled and outcome.advantage is None
    for ridge in (1e-4, 1e-3, 1e-1, 10.0):
        _, none = play_hull(sources, radius=0.0, ridge=ridge)
        learner = Learner(ridge=sources.learner_ridge(ridge))
        learner.add(WeightedSample(sources.Z, sources.y, sources.weight))
        assert torch.allclose(none.head, learner.respond(sources.pooled).head, atol=1e-6)
        _, outcome = play_hull(sources, radius=RADIUS, ridge=ridge)
        sizes.append(float(outcome.head[:, :-1].norm()))
    assert sizes == sorted(sizes, reverse=True)


def test_one_source_gives_erms_head() -> None:
    sources = make_problem(1, n=200, classes=2, sources=1).sources
    _, outcome = play_hull(sources, radius=8.0)
    assert outcome.head is sources.pooled and outcome.advantage is None


@pytest.mark.parametrize("n", [4, 5, 8])
def test_sources_of_few_rows_are_no_obstacle(n: int) -> None:
    """Some folds then have no row of a source, or of a class."""
    X = np.random.default_rng(0).standard_normal((n, 3))
    sources = fit_source_heads(check_domains(X, np.arange(n) % 2, np.arange(n) // 2 % 2))
    _, outcome = play_hull(sources, radius=8.0)
    assert bool(outcome.head.isfinite().all())


@pytest.mark.parametrize("surrogate", ["relabelled", "transplanted"])
def test_with_soft_labels_the_head_is_the_games(surrogate: SurrogateKind) -> None:
    _, outcome = play_hull(_sources(2), radius=1.0, surrogate=surrogate, tolerance=1e-2)
    assert outcome.advantage is None and outcome.head is outcome.heads[-1]
