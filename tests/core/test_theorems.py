"""Formal statements that no other test file checks: see the table in docs/method.md."""

import functools
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regraft import CROClassifier, Factorization, HeadCertificate, audit, make_confounded_domains
from regraft.core.domains import check_domains
from regraft.core.game import Target, play
from regraft.core.head_certificate import FiniteSample, _longest_contrast
from regraft.core.heads import fit_source_heads
from regraft.core.hull import attack, plausible_targets, tilt_rows
from regraft.core.learner import Learner
from regraft.core.newton import losses
from regraft.core.surrogates import WeightedSample, pair_with_every_label, relabel
from regraft.core.transplant import (
    Transplant,
    affine_combination,
    find_witness,
    kernel_condition,
    transplant_bases,
)
from regraft.premises.deduction_invariance import deduction_test
from regraft.premises.factorization import group_rows
from tests.helpers.problems import normal, with_constant

seeds = st.integers(0, 2**31)


# Entanglement: what the sources fix, and what they leave open.


def _tables(abduction: Tensor, deduction: Tensor) -> Factorization:
    """The maps of P(u | x) (K, n, r) and P(y = 1 | x, u) (n, r), for inputs e_1 ... e_n."""
    K, n, r = abduction.shape
    maps = torch.zeros(K, n + 1, r, dtype=torch.float64)
    maps[:, :n] = abduction.log()
    labels = torch.zeros(n + 1, r, 2, dtype=torch.float64)
    labels[:n, :, 1] = torch.logit(deduction)
    return Factorization(maps, labels)


@given(seeds)
def test_one_prediction_has_many_factorizations_that_disagree_elsewhere(seed: int) -> None:
    """`rem:entanglement`: P(y | x) fixes neither factor, nor what another mix of groups does."""
    n, inputs = 4, torch.eye(4, dtype=torch.float64)
    domain = torch.zeros(n, dtype=torch.int64)
    prediction = 0.3 + 0.4 * normal(seed, n).sigmoid()
    factorizations = []
    for draw in (1, 2):
        share = 0.3 + 0.4 * normal(seed + draw, n).sigmoid()  # P(u = 1 | x)
        spread = 0.2 * draw * torch.minimum(1 / share, 1 / (1 - share))
        first = prediction - spread * share  # at u = 0; both stay inside (0, 1)
        deduction = torch.stack([first, first + spread], dim=1).clamp(0.01, 0.99)
        share = (prediction - deduction[:, 0]) / (deduction[:, 1] - deduction[:, 0])
        sources = torch.stack([1 - share, share], dim=1)
        shifted = sources * torch.tensor([0.2, 0.8])  # the same prior shift for both
        sources = torch.stack([sources, shifted / shifted.sum(dim=1, keepdim=True)])
        factorizations.append(_tables(sources, deduction))
    here = [maps.predict(inputs, domain)[:, 1] for maps in factorizations]
    there = [maps.predict(inputs, domain + 1)[:, 1] for maps in factorizations]
    for found in here:
        assert torch.allclose(found, prediction)
    assert not torch.allclose(*(maps.abduce(inputs, domain) for maps in factorizations), atol=1e-3)
    assert not torch.allclose(*(maps.deduce(inputs) for maps in factorizations), atol=1e-3)
    assert not torch.allclose(*there, atol=1e-3)


@given(seeds, st.integers(1, 3), st.integers(1, 4))
def test_a_target_prediction_is_each_sources_at_the_transplanted_point(
    seed: int, K: int, r: int
) -> None:
    """`prop:transplant-consistency-multi`, eq. `w-star-0`: P*(y | w) = P^s(y | T_{star->s} w)."""
    d = (K + 2) * r + 2
    A, D = normal(seed, K + 1, d, r), normal(seed + 1, d, r)
    bases = transplant_bases(list(A), D)
    L = bases.member(normal(seed + 2, bases.directions.shape[1], r))
    rows = normal(seed + 3, 6, d)

    def prediction(s: int, points: Tensor) -> Tensor:
        return ((points @ A[s]).softmax(1) * (points @ D).sigmoid()).sum(1)

    target = prediction(K, rows)
    for s in range(K):
        moved = Transplant(L, A[K], A[s])(rows)
        assert torch.allclose(prediction(s, moved), target, atol=1e-8)
        if r > 1:  # one group alone has no abduction to differ in
            assert not torch.allclose(prediction(s, rows), target, atol=1e-6)


@given(seeds, st.integers(2, 4), st.integers(1, 3), st.booleans())
def test_a_basis_exists_exactly_when_every_kernel_vector_sums_to_zero(
    seed: int, blocks: int, r: int, balanced: bool
) -> None:
    """`prop:L-exists`, both directions, on systems with one planted linear dependence."""
    d = (blocks + 1) * r + 1
    A, D = normal(seed, blocks, d, r), normal(seed + 1, d, r)
    coefficients = normal(seed + 2, blocks - 1, r)
    if balanced:  # the kernel vector (coefficients, -e_1) has parts that sum to zero
        coefficients[-1] -= coefficients.sum(0) - torch.eye(r, dtype=torch.float64)[0]
    A[-1, :, 0] = torch.einsum("sdr,sr->d", A[:-1], coefficients) + D @ normal(seed + 3, r)

    system = torch.cat([*A, D], dim=1)
    _, values, vectors = torch.linalg.svd(system)
    kernel = vectors[int((values > 1e-9 * values[0]).sum()) :]
    assert len(kernel) == 1
    sums = kernel[:, : blocks * r].reshape(blocks, r).sum(0)
    assert (float(sums.abs().max()) < 1e-8) == balanced
    assert kernel_condition(list(A), D).holds == balanced


def test_invariance_needs_groups_that_keep_what_the_label_depends_on() -> None:
    """`rem:fY-sufficiency`: P(y | x, u) is shared, but coarser groups inherit the priors of u."""
    rng = np.random.default_rng(0)
    n = 2000
    domain = np.repeat([0, 1], n)
    X = rng.standard_normal((2 * n, 3))
    kept = rng.integers(2, size=2 * n)
    dropped = (rng.random(2 * n) < np.where(domain, 0.3, 0.7)).astype(int)
    logit = 1.5 * X[:, 0] + 2 * X[:, 1] * kept + 2 * dropped - 1
    y = (rng.random(2 * n) < 1 / (1 + np.exp(-logit))).astype(int)
    domains = check_domains(X, y, domain)

    def p_value(group: np.ndarray) -> float:
        rows = group_rows(domains, torch.from_numpy(group), int(group.max()) + 1)
        return deduction_test(rows, penalty=1.0, draws=199).p_value

    assert p_value(kept + 2 * dropped) > 0.01
    assert p_value(kept) == 1 / 200


# The game.


class _Finite:
    """An adversary with finitely many targets, searched exactly."""

    def __init__(self, samples: list[WeightedSample]) -> None:
        self._targets = [Target(sample, torch.tensor([i])) for i, sample in enumerate(samples)]

    def attack(self, head: Tensor) -> Target:
        return max(self._targets, key=lambda target: target.sample.value(head))


def _draw_targets(seed: int, n_targets: int) -> list[WeightedSample]:
    """Draw targets of the same twenty rows."""
    rows = with_constant(normal(seed, 20, 2))
    y = (normal(seed + 1, 20) > 0).long()
    weights = (2 * normal(seed + 2, n_targets, 20)).softmax(1)
    return [WeightedSample(rows, y, weight) for weight in weights]


def _best_head(samples: list[WeightedSample], start: Tensor, ridge: float) -> float:
    """The minimax value over all the samples at once."""
    learner = Learner(ridge=ridge, tolerance=1e-8)
    for sample in samples:
        learner.add(sample)
    return learner.respond(start).value


@given(seeds, st.integers(2, 6))
def test_the_minimax_value_lies_between_the_games_two_bounds(seed: int, n_targets: int) -> None:
    """`thm:min-max-conv`: M_t rises to the value from below; the last attack bounds it above."""
    samples = _draw_targets(seed, n_targets)
    start, ridge = torch.zeros((2, 3), dtype=torch.float64), 1e-2
    value = _best_head(samples, start, ridge)
    outcome = play(_Finite(samples), Learner(ridge=ridge, tolerance=1e-7), start, tolerance=1e-6)
    values = [r.value for r in outcome.rounds]
    assert all(after >= before - 1e-6 for before, after in pairwise(values))
    assert values[-1] <= value + 1e-6
    assert value <= outcome.worst_value + ridge * float(outcome.head.square().sum()) + 1e-6
    assert len(outcome.rounds) <= n_targets + 1  # a target that comes back ends the game


@given(seeds, st.integers(2, 6))
def test_a_learner_that_knows_all_targets_has_the_minimax_value_at_once(
    seed: int, n_targets: int
) -> None:
    samples = _draw_targets(seed, n_targets)
    start, ridge = torch.zeros((2, 3), dtype=torch.float64), 1e-2
    value = _best_head(samples, start, ridge)
    outcome = play(
        _Finite(samples),
        Learner(ridge=ridge, tolerance=1e-7),
        start,
        known=[Target(sample, torch.tensor([i])) for i, sample in enumerate(samples)],
        near=normal(seed + 3, 2, 3),
    )
    first, last = outcome.rounds
    assert first.attack_value == max(sample.value(start) for sample in samples)
    assert first.value == pytest.approx(value, abs=1e-6)
    assert last.value == pytest.approx(value, abs=1e-6)
    assert len(outcome.targets) == len(last.risks) == n_targets


def test_a_value_that_stands_still_is_not_yet_minimax() -> None:
    """The stop rule of Algorithm 1 bounds no distance: only the attack on the answer does.

    The first two targets are read along different features, so that the second leaves the value
    where it was; the third asks the opposite of the second, and is met only afterwards.
    """
    a, minus_a, b = torch.tensor([[1.0, 0, 1], [-1, 0, 1], [0, 1, 1]], dtype=torch.float64)
    ends = WeightedSample(
        torch.stack([a, a, minus_a, minus_a]),
        torch.tensor([1, 0, 0, 1]),
        torch.tensor([0.475, 0.025, 0.475, 0.025], dtype=torch.float64),
    )
    ones, zeros = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.int64)
    up = WeightedSample(b[None], zeros + 1, ones)
    share = torch.tensor([0.7, 0.3], dtype=torch.float64)
    down = WeightedSample(torch.stack([b, a]), torch.tensor([0, 1]), share)
    samples, ridge = [ends, up, down], 1e-5
    start = torch.tensor([[2.0, 0, 0], [-2, 0, 0]], dtype=torch.float64)
    outcome = play(_Finite(samples), Learner(ridge=ridge), start)
    value = _best_head(samples, start, ridge)
    assert outcome.converged and len(outcome.rounds) == 2
    assert outcome.rounds[-1].value < value - 0.3
    assert outcome.worst_value > value


# The plausible targets: why the hull.


@given(seeds, st.integers(2, 5))
def test_no_head_but_a_constant_survives_its_own_reversal(seed: int, C: int) -> None:
    """Among all heads there is always one against which a head is worse than guessing."""
    rows = WeightedSample(
        with_constant(normal(seed, 9, 3)),
        torch.zeros(9, dtype=torch.int64),
        normal(seed + 1, 9).softmax(0),
    )
    pairs, head = pair_with_every_label(rows, C), normal(seed + 2, C, 4)
    assert relabel(pairs, -head).risk(head) > math.log(C)
    constant = torch.zeros_like(head)
    assert relabel(pairs, -head).risk(constant) == pytest.approx(math.log(C))
    # With features enough, the reversal of any head is a transplant away from any sources.
    wide, sources = normal(seed + 3, C, 4 + 2 * C), normal(seed + 4, 2, C, 4 + 2 * C)
    assert find_witness(-wide, sources).fit_residual < 1e-7


@given(seeds, st.integers(3, 8), st.integers(2, 4))
def test_with_one_free_direction_the_free_targets_are_the_hull(seed: int, d: int, K: int) -> None:
    """At r = d - 1 the fit condition puts all heads of two classes on one line (readings)."""
    L = torch.linalg.qr(normal(seed, d, d - 1)).Q
    v = torch.linalg.svd(L.T).Vh[-1]  # the direction that L does not reach
    A = L + v[:, None] * normal(seed + 1, K + 1, 1, d - 1)
    target = normal(seed + 2, 2, d)
    target = target - target.mean(0)
    heads = torch.stack([target @ Transplant(L, A[s], A[K]).matrix() for s in range(K)])
    moves = (heads - target)[:, 0]  # (K, d), of the logit's half
    assert torch.linalg.matrix_rank(moves, rtol=1e-8) == 1
    c = moves @ v
    weights = torch.stack([-c[1], c[0]]) / (c[0] - c[1])
    # Two sources already have the target among their affine combinations.
    scale = float(heads.abs().max() * weights.abs().sum())
    assert torch.allclose(affine_combination(heads[:2], weights), target, atol=1e-9 * scale)


def test_a_mix_of_groups_can_be_noisier_than_any_tilt_of_the_sources() -> None:
    """What the certificate leaves out: heads that agree say nothing about the groups behind them.

    Two groups say yes, a third no. The sources differ in the first two, so their heads are equal
    and the hull is a point; the panel halfway between their log priors has more of the third.
    """
    priors = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]], dtype=torch.float64)
    halfway = priors.log().mean(dim=0, keepdim=True).softmax(1)
    yes = torch.tensor([[0.95, 0.95, 0.05]], dtype=torch.float64)
    maps = _tables(torch.cat([priors, halfway]).unsqueeze(1), yes)
    x = torch.eye(1, dtype=torch.float64).expand(3, 1)
    first, second, target = maps.predict(x, torch.arange(3))
    assert torch.allclose(first, second) and float(first[1]) == pytest.approx(0.86)
    certified, true = float(-first @ first.log()), float(-target @ first.log())
    assert float(target[1]) == pytest.approx(0.815, abs=1e-3)
    assert true > certified + 0.05


# What the certificate adds up.


@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_the_robustness_slack_is_for_points_that_keep_their_labels(slope: float) -> None:
    """`thm:robustness` moves inputs; its slack does not protect against other labels."""
    here, there = torch.tensor([[[0.0, 1.0]], [[1e-3, 1.0]]], dtype=torch.float64)
    yes, mass = torch.tensor([1]), torch.ones(1, dtype=torch.float64)
    head = torch.tensor([[0.0, 0.0], [slope, 2.0]], dtype=torch.float64)
    slack = _longest_contrast(head) * float((there - here).norm())
    risk = WeightedSample(here, yes, mass).risk(head)
    assert abs(WeightedSample(there, yes, mass).risk(head) - risk) <= slack
    assert WeightedSample(there, 1 - yes, mass).risk(head) > risk + slack + 1


@functools.cache
def _worst_cases(n: int, seed: int) -> tuple[HeadCertificate, float, float]:
    """A certificate of n rows a source; the worst risk on 6,000 new ones, by two hulls.

    The first hull is that of the n rows, the second that of the new ones.
    """
    data = make_confounded_domains(n + 6000, n_target=1, n_features=6, random_state=seed)
    fitted = np.arange(len(data.y)) % (n + 6000) < n
    seen, rows = (
        (data.X[kept], data.y[kept], data.sample_domain[kept]) for kept in (fitted, ~fitted)
    )
    model = CROClassifier("hull", radius=2.0).fit(*seen)
    sources = fit_source_heads(check_domains(*seen))
    known, _ = plausible_targets(sources)
    new = check_domains(*rows)
    Z = sources.whitening(new.X)
    surrogates = tilt_rows(known, sources.heads, Z, new.y, new.weight, new.domain)
    probability = torch.from_numpy(model.predict_proba(rows[0]))
    own = attack(surrogates, losses(probability.log(), new.y), 2.0).value
    assert isinstance(model.certificate_, HeadCertificate)
    return model.certificate_, own, audit(model, *rows, [2.0]).points[0].risk


def _terms(certificate: HeadCertificate) -> FiniteSample:
    assert certificate.finite_sample is not None
    return certificate.finite_sample


@pytest.mark.parametrize("n", [150, 2400])
def test_the_certificate_covers_new_rows_of_the_plausible_targets(n: int) -> None:
    """`prop:finite-sample`: the bound holds on new rows, and so does its statistical term."""
    misses = 0
    for seed in range(4):
        certificate, own, _ = _worst_cases(n, seed)
        misses += own > certificate.risk_bound
        assert own - 0.01 <= certificate.risk_bound <= own + (1.0 if n == 150 else 0.2)
        measured = max(each.risk for each in (*certificate.targets, *certificate.sources))
        assert own <= measured + _terms(certificate).statistical
    assert misses <= 1


def test_the_statistical_term_falls_with_the_root_of_the_effective_rows() -> None:
    few, many = (_terms(_worst_cases(n, 0)[0]) for n in (150, 2400))
    assert few.rows < 2 * 150 and many.rows > 5 * few.rows
    assert few.statistical == pytest.approx(many.statistical * math.sqrt(many.rows / few.rows))


def test_the_hull_itself_is_known_as_well_as_the_rows_allow() -> None:
    """The bound is for given source heads. Few rows miss how the sources differ, and how much."""
    cases = {n: [_worst_cases(n, seed) for seed in range(4)] for n in (150, 2400)}
    few, many = (max(risk - c.risk_bound for c, _, risk in found) for found in cases.values())
    assert few > 0.5 and many < 0.05
