import json
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regraft import HeadCertificate, LiteralCROClassifier
from regraft.core.free_adversary import FreeAdversary, FreeAdversaryOptions
from regraft.core.game import GameOutcome, play
from regraft.core.learner import Learner
from regraft.core.standardization import standardize
from regraft.core.surrogates import (
    SurrogateKind,
    WeightedSample,
    pair_with_every_label,
    relabel,
    relabel_moved,
    reweight,
)
from tests.helpers.problems import make_problem, normal

SURROGATES: tuple[SurrogateKind, ...] = ("reweighted", "transplanted", "relabelled")
D = 6
RIDGE = 1e-3
# One Adam step an attack: one epoch of a single batch.
ONE_STEP = FreeAdversaryOptions(cro_rank=3, cro_adv_epochs=1, cro_adv_batch=10_000, cro_adv_lr=0.1)
# An adversary that may leave the sources behind.
BOLD = FreeAdversaryOptions(cro_rank=3, cro_lambda_consist=1.0, cro_adv_lr=1e-2)

seeds = st.integers(0, 1000)
surrogates = st.sampled_from(SURROGATES)


@dataclass(frozen=True)
class Game:
    rows: WeightedSample
    slices: tuple[slice, ...]
    start: Tensor  # (C, D + 1) the pooled head
    heads: Tensor  # (K, C, D + 1)


@cache
def _game(k: int) -> Game:
    p = make_problem(k, n=120, d=D) if k == 2 else make_problem(1, n=120, d=D, classes=3, sources=3)
    sources = p.sources
    scaled, to_features = standardize(sources), sources.whitening.to_features
    start = scaled.from_features(to_features(sources.pooled))
    heads = scaled.from_features(to_features(sources.heads))
    return Game(scaled.rows, sources.slices, start, heads)


def _adversary(game: Game, options: FreeAdversaryOptions, *args: Any) -> FreeAdversary:
    return FreeAdversary(game.rows, game.slices, game.start, options, *args)


def _play(game: Game, adversary: FreeAdversary) -> GameOutcome:
    return play(adversary, Learner(ridge=RIDGE), game.start, max_rounds=6)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("rank", [1, 2, D - 1, D])
@pytest.mark.parametrize("carried", [True, False])
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_every_step_keeps_biorthogonality(
    k: int, rank: int, carried: bool, surrogate: SurrogateKind
) -> None:
    """A_s^T L = I for all s and star, and D^T L = 0."""
    game = _game(k)
    adversary = _adversary(game, replace(ONE_STEP, cro_rank=rank, carried=carried), surrogate)
    identity = torch.eye(rank, dtype=torch.float64).expand(k + 1, rank, rank)
    for _ in range(6):
        target = adversary.attack(game.start)
        basis, abductions = adversary.bases()
        assert basis.shape == (D, rank)
        assert abductions.shape == (k + 1, D, rank)
        assert torch.allclose(abductions.mT @ basis, identity, rtol=0, atol=1e-8)
        witness = adversary.witness(target, game.heads)
        assert witness.biorthogonality_residual <= 1e-8
        assert witness.rank == rank
        assert torch.allclose(witness.deduction.mT @ witness.basis, torch.zeros(()).double())


@pytest.mark.parametrize("rank", [113, 127, 128])
def test_biorthogonality_holds_in_the_protocols_dimension(rank: int) -> None:
    weight = torch.full((40,), 1 / 40, dtype=torch.float64)
    rows = WeightedSample(normal(0, 40, 129), torch.arange(40) % 2, weight)
    start = normal(1, 2, 129)
    options = replace(ONE_STEP, cro_rank=rank)
    adversary = FreeAdversary(rows, [slice(0, 20), slice(20, 40)], start, options)
    for _ in range(4):
        adversary.attack(start)
        basis, abductions = adversary.bases()
        residual = abductions.mT @ basis - torch.eye(rank, dtype=torch.float64)
        assert float(residual.abs().max()) <= 1e-8


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_unequal_sources_weigh_the_same_for_the_adversary_and_in_its_target(
    surrogate: SurrogateKind,
) -> None:
    slices = [slice(0, 200), slice(200, 220)]
    weight = torch.tensor([1 / 400] * 200 + [1 / 40] * 20, dtype=torch.float64)
    rows = WeightedSample(normal(0, 220, D + 1), torch.arange(220) % 2, weight)
    start, head = normal(1, 2, 2, D + 1)
    free_of_penalties = replace(
        ONE_STEP, cro_lambda_consist=0.0, cro_lambda_hausdorff=0.0, cro_lambda_op=0.0
    )
    adversary = FreeAdversary(rows, slices, start, free_of_penalties, surrogate)
    target = adversary.attack(head)
    everything = [torch.arange(s.start, s.stop) for s in slices]
    objective = float(adversary._objective(head, everything).detach())
    assert objective == pytest.approx(target.sample.risk(head), rel=1e-9)


@given(seeds, st.integers(1, D), st.sampled_from([2, 3]), surrogates)
def test_steps_move_the_abductions_apart_only_where_the_basis_is_blind(
    seed: int, rank: int, k: int, surrogate: SurrogateKind
) -> None:
    """In d - r directions; with r = d - 1 and two sources this leaves a line, the hull's."""
    game = _game(k)
    adversary = _adversary(game, replace(ONE_STEP, cro_rank=rank), surrogate, seed)
    first_basis, first_abductions = adversary.bases()
    adversary.attack(game.start)
    basis, abductions = adversary.bases()
    differences = torch.cat(list(abductions - abductions[-1]), dim=1)
    assert float((basis.T @ differences).abs().max()) <= 1e-10
    assert int(torch.linalg.matrix_rank(differences, atol=1e-9)) <= D - rank
    if rank < D:
        assert not torch.allclose(first_basis @ first_basis.T, basis @ basis.T, atol=1e-4)
        assert not torch.allclose(first_abductions, abductions, atol=1e-4)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_a_target_is_the_surrogate_of_its_parameters(k: int, surrogate: SurrogateKind) -> None:
    game = _game(k)
    adversary = _adversary(game, ONE_STEP, surrogate)
    pairs = pair_with_every_label(game.rows, len(game.start))
    for _ in range(3):
        target = adversary.attack(game.start)
        head = target.z[-game.start.numel() :].reshape(game.start.shape)
        witness = adversary.witness(target, game.heads)
        moved = [witness.transplant(i)(game.rows.Z[s]) for i, s in enumerate(game.slices)]
        expected = {
            "reweighted": reweight(game.rows, game.start, head),
            "relabelled": relabel(pairs, head),
            "transplanted": relabel_moved(pairs, torch.cat(moved).repeat(len(head), 1), head),
        }[surrogate]
        assert torch.allclose(target.sample.Z, expected.Z, atol=1e-10)
        assert torch.equal(target.sample.y, expected.y)
        assert torch.allclose(target.sample.weight, expected.weight, atol=1e-12)
        assert float(target.sample.weight.sum()) == pytest.approx(1)


@given(seeds, st.sampled_from([2, 3]))
def test_full_rank_leaves_the_identity_as_the_only_transplant(seed: int, k: int) -> None:
    game = _game(k)
    adversary = _adversary(game, replace(ONE_STEP, cro_rank=D), "transplanted", seed)
    for _ in range(3):
        target = adversary.attack(game.start)
        basis, abductions = adversary.bases()
        assert torch.allclose(abductions, basis.expand_as(abductions), atol=1e-10)
        witness = adversary.witness(target, game.heads)
        identity = torch.eye(D + 1, dtype=torch.float64)
        for s in range(k):
            assert torch.allclose(witness.transplant(s).matrix(), identity, atol=1e-10)
        assert torch.allclose(target.sample.Z, game.rows.Z.repeat(len(game.start), 1), atol=1e-9)


@pytest.mark.parametrize("k", [2, 3])
def test_full_rank_games_stay_at_the_pooled_head(k: int) -> None:
    """Without transplants g* can only fit the pooled sources; moving the rows changes nothing."""
    game, options = _game(k), FreeAdversaryOptions(cro_rank=D)
    outcome = _play(game, _adversary(game, options, "relabelled"))
    pooled = game.rows.accuracy(game.start)
    assert game.rows.accuracy(outcome.head) == pytest.approx(pooled, abs=0.02)
    moved = _play(game, _adversary(game, options, "transplanted"))
    assert torch.allclose(outcome.head, moved.head, atol=1e-6)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("rank", [1, 3, D])
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_an_attack_makes_the_target_harder(k: int, rank: int, surrogate: SurrogateKind) -> None:
    game, options = _game(k), replace(BOLD, cro_rank=rank)
    still = _adversary(game, replace(options, cro_adv_lr=0.0), surrogate).attack(game.start)
    found = _adversary(game, options, surrogate).attack(game.start)
    assert found.sample.risk(game.start) > still.sample.risk(game.start)


@given(seeds, surrogates, st.booleans())
def test_the_same_seed_finds_the_same_bits(
    seed: int, surrogate: SurrogateKind, carried: bool
) -> None:
    game, options = _game(2), replace(BOLD, cro_adv_epochs=2, carried=carried)
    one, two, other = (_adversary(game, options, surrogate, s) for s in (seed, seed, seed + 1))
    for _ in range(2):
        target, same, different = (a.attack(game.start) for a in (one, two, other))
        assert torch.equal(target.z, same.z)
        assert torch.equal(target.sample.weight, same.sample.weight)
        assert torch.equal(target.sample.Z, same.sample.Z)
        assert not torch.equal(target.z, different.z)
        assert not torch.equal(target.sample.weight, different.sample.weight)


@given(seeds, surrogates)
def test_the_global_random_state_is_neither_read_nor_changed(
    seed: int, surrogate: SurrogateKind
) -> None:
    game, found = _game(2), []
    for state in (seed, seed + 1):
        torch.manual_seed(state)
        found.append(_adversary(game, ONE_STEP, surrogate).attack(game.start))
        drawn = torch.rand(3)
        torch.manual_seed(state)
        assert torch.equal(drawn, torch.rand(3))
    assert torch.equal(found[0].z, found[1].z)


@given(seeds, surrogates, st.booleans())
def test_a_witness_disturbs_nothing(seed: int, surrogate: SurrogateKind, carried: bool) -> None:
    game, options = _game(2), replace(BOLD, cro_adv_epochs=2, carried=carried)
    watched, alone = (_adversary(game, options, surrogate, seed) for _ in range(2))
    first, second = watched.attack(game.start), watched.attack(game.start)
    before = watched.bases()
    witness = watched.witness(first, game.heads)  # of a target before the last
    assert all(map(torch.equal, before, watched.bases()))
    assert torch.equal(witness.basis, watched.witness(first, game.heads).basis)
    assert not torch.equal(witness.basis, watched.witness(second, game.heads).basis)
    for _ in range(2):
        alone.attack(game.start)
    assert torch.equal(watched.attack(game.start).z, alone.attack(game.start).z)


@given(seeds)
def test_only_a_carried_ascent_starts_where_the_last_one_ended(seed: int) -> None:
    game, still = _game(2), replace(ONE_STEP, cro_adv_lr=0.0)
    for carried in (True, False):
        adversary = _adversary(game, replace(still, carried=carried), "transplanted", seed)
        first, second = (adversary.attack(game.start).z for _ in range(2))
        assert torch.equal(first, second) == carried
        head = game.start.flatten()
        assert torch.equal(second[-len(head) :], head)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_targets_are_double_and_keep_their_values_while_the_adversary_climbs_on(
    surrogate: SurrogateKind,
) -> None:
    game = _game(2)
    adversary = _adversary(game, ONE_STEP, surrogate)
    target = adversary.attack(game.start)
    witness = adversary.witness(target, game.heads)
    tensors = target.z, target.sample.Z, target.sample.weight, game.start
    before = [tensor.clone() for tensor in tensors]
    head = _play(game, adversary).head
    assert all(map(torch.equal, tensors, before))
    for tensor in (*tensors, *adversary.bases(), witness.basis, head):
        assert tensor.dtype == torch.float64
        assert not tensor.requires_grad


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("options", [FreeAdversaryOptions(cro_rank=2), BOLD])
def test_games_share_the_conventions_of_the_hull(
    k: int, surrogate: SurrogateKind, options: FreeAdversaryOptions
) -> None:
    game = _game(k)
    outcome = _play(game, _adversary(game, options, surrogate))
    assert 2 <= len(outcome.rounds) <= 6
    assert len(outcome.targets) == len(outcome.mixture) == len(outcome.heads) == len(outcome.rounds)
    for before, after in pairwise(outcome.rounds):
        assert after.value >= before.value - before.gap - 1e-9
    assert all(r.gap <= 1e-4 for r in outcome.rounds)
    risks = [target.sample.risk(outcome.head) for target in outcome.targets]
    assert list(outcome.rounds[-1].risks) == pytest.approx(risks)
    penalty = RIDGE * float(outcome.head.square().sum())
    assert outcome.rounds[-1].value == pytest.approx(max(risks) + penalty)
    assert outcome.worst_value >= max(risks) - 1e-9
    assert outcome.worst.sample.risk(outcome.head) == pytest.approx(outcome.worst_value)
    first = outcome.targets[0].sample.risk(game.start)
    assert outcome.rounds[0].attack_value == pytest.approx(first)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_a_free_game_tells_of_the_worst_domain_found(surrogate: SurrogateKind) -> None:
    problem = make_problem(2)
    model = LiteralCROClassifier(surrogate, cro_rank=3, cro_max_outer_iters=3).fit(*problem.data)
    c = model.certificate_
    assert isinstance(c, HeadCertificate) and c.family == "free"
    assert c.finite_sample is None  # the family has no radius, hence no covering number
    assert c.biorthogonality_residual <= 1e-8 and c.witness_rank == 3
    (found,) = c.targets
    assert 1 <= found.rows <= len(problem.y)  # a row with soft labels counts once
    assert c.risk_bound == max(each.risk_bound for each in (found, *c.sources))
    assert "that the free adversary found" in c.paragraphs()[0]
    assert HeadCertificate.from_dict(json.loads(c.to_json())) == c
