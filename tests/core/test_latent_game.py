"""The game over groups: its head, its guard, its certificate and its transplants."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from regraft import CROClassifier, ERMClassifier, make_confounded_domains
from regraft.core import latent_game
from regraft.core.abduction import Groups, find_groups, rows_of_sources
from regraft.core.domains import check_domains
from regraft.core.evidence import Evidence, HeldOutRows, measure
from regraft.core.group_certificate import GroupCertificate, certify_latent
from regraft.core.guard import NOT_BETTER, Advantage
from regraft.core.heads import SourceHeads, fit_source_heads
from regraft.core.latent_game import (
    NO_FACTOR,
    NO_OVERLAP,
    NOT_MIXTURES,
    NOT_WORTH,
    PROMISES_LESS,
    SAYS_NOTHING,
    LatentOutcome,
    doubt_promise,
    find_doubt,
    play_latent,
)
from regraft.core.newton import minimax_newton
from regraft.core.source_mixtures import find_outside
from regraft.data.examples import ConfoundedDomains


@pytest.fixture(scope="module")
def data() -> ConfoundedDomains:
    return make_confounded_domains(800, strengths=(0.9, 0.6), random_state=0)


@pytest.fixture(scope="module")
def sources(data: ConfoundedDomains) -> SourceHeads:
    return fit_source_heads(check_domains(data.X, data.y, data.sample_domain))


@pytest.fixture(scope="module")
def groups(sources: SourceHeads) -> Groups:
    return find_groups(rows_of_sources(sources))


@pytest.fixture(scope="module")
def model(data: ConfoundedDomains) -> CROClassifier:
    return CROClassifier().fit(data.X, data.y, data.sample_domain)


def test_the_head_holds_where_erm_breaks(data: ConfoundedDomains, model: CROClassifier) -> None:
    erm = ERMClassifier().fit(data.X, data.y, data.sample_domain)
    unseen = data.X_target, data.y_target
    assert model.score(*unseen) > erm.score(*unseen) + 0.2


def test_the_head_is_minimax_over_the_groups(sources: SourceHeads, groups: Groups) -> None:
    outcome = play_latent(sources, groups)
    assert outcome.game is not None
    assert outcome.game.converged
    vertices = outcome.targets.blocks[0]
    direct = minimax_newton(
        sources.Z, sources.y, vertices, ridge=outcome.ridge, start=sources.pooled, tolerance=1e-8
    )
    assert outcome.game.rounds[-1].value == pytest.approx(direct.value, abs=1e-3)


def test_held_out_losses_are_of_heads_that_have_not_seen_the_row(
    sources: SourceHeads, groups: Groups
) -> None:
    outcome = play_latent(sources, groups, ridge=0.01)
    some = (sources.held_out.fold == 0).nonzero().squeeze(1)[::20]
    y = sources.y.clone()
    y[some] = 1 - y[some]
    changed = play_latent(replace(sources, y=y), groups, ridge=0.01)
    assert outcome.reason == changed.reason == ""
    # A head that had seen the wrong labels would find them likelier than its twin does.
    total = (-outcome.held_out.loss).exp() + (-changed.held_out.loss).exp()
    assert torch.allclose(total[some], torch.ones(len(some), dtype=total.dtype), atol=1e-6)


def test_the_ridge_of_very_many_rows_is_chosen_on_rows_of_every_fold(
    sources: SourceHeads, groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = play_latent(sources, groups)
    for most in (len(sources.y) // 3, len(sources.y) // 6):  # strides of 3 and 6, with 3 folds
        monkeypatch.setattr(latent_game, "_MAX_RIDGE_ROWS", most)
        fewer, _ = latent_game._thin(sources, expected.targets)
        counts = torch.bincount(fewer.held_out.fold, minlength=3)
        assert counts.min() > 0.9 * counts.max()
        assert play_latent(sources, groups).reason == expected.reason == ""


@pytest.mark.parametrize(
    ("advantage", "price", "doubt"),
    [
        (Advantage(1.0, 0.9, 0.06), 0.0, NOT_BETTER),
        (Advantage(1.0, 0.9, 0.01), 0.2, NOT_WORTH),
        (Advantage(1.0, 0.9, 0.01), 0.05, ""),
    ],
)
def test_the_guard(advantage: Advantage, price: float, doubt: str) -> None:
    assert find_doubt(advantage, price) == doubt


def evidence(accuracy_bound: float) -> Evidence:
    return Evidence("", 100.0, 1.0, 0.5, 0.6, 0.9, accuracy_bound)


@pytest.mark.parametrize(
    ("bounds", "pooled", "doubt"),
    [((0.6, 0.5), (0.7, 0.4), ""), ((0.6, 0.4), (0.6, 0.5), PROMISES_LESS)],
)
def test_the_guard_by_what_is_promised(
    bounds: tuple[float, ...], pooled: tuple[float, ...], doubt: str
) -> None:
    own, theirs = ([evidence(bound) for bound in head] for head in (bounds, pooled))
    assert doubt_promise(own, theirs) == doubt


def test_a_robust_head_that_only_guesses_is_refused() -> None:
    """The label is seen in the hidden factor alone; one class is more frequent."""
    rng = np.random.default_rng(0)
    n = 4000
    y, s = (rng.random(n) < 0.3).astype(int), np.arange(n) % 2
    factor = y ^ (rng.random(n) > np.where(s == 0, 0.95, 0.7))
    X = np.column_stack([rng.standard_normal((n, 3)), 4.0 * factor + 0.5 * rng.standard_normal(n)])
    sources = fit_source_heads(check_domains(X, y, s))
    outcome = play_latent(sources, find_groups(rows_of_sources(sources)))
    assert outcome.reason == SAYS_NOTHING and outcome.head is sources.pooled
    assert outcome.advantage is not None and outcome.advantage.is_clear  # what it would have gained


def test_sources_that_are_no_mixtures_leave_the_ordinary_head() -> None:
    data = make_confounded_domains(800, strengths=(0.9, 0.6), label_noise=0, random_state=0)

    def play(y: NDArray[Any]) -> tuple[SourceHeads, LatentOutcome]:
        sources = fit_source_heads(check_domains(data.X, y, data.sample_domain))
        return sources, play_latent(sources, find_groups(rows_of_sources(sources)))

    assert play(data.y)[1].reason == ""
    # Labels of one source are wrong, whatever the group: no mixture has that.
    wrong = (np.arange(len(data.y)) % 4 == 0) & (data.sample_domain == "source 1")
    sources, outcome = play(np.where(wrong, 1 - data.y, data.y))
    assert outcome.reason == NOT_MIXTURES
    assert outcome.head is sources.pooled
    names = ["here", "there"]
    [number] = outcome.outside
    reason = certify_latent(outcome, sources, names, {}).reason
    assert reason == f"{NOT_MIXTURES} ({names[number]})"


@pytest.mark.parametrize("seed", [0, 1])
def test_sources_may_have_their_own_shares_of_the_classes(seed: int) -> None:
    data = make_confounded_domains(1500, strengths=(0.9, 0.6, 0.1), random_state=seed)
    random = np.random.default_rng(seed)
    rare = (data.sample_domain == "source 1") & (data.y == 1)
    kept = ~(rare & (random.random(len(data.y)) < 0.7))
    sources = fit_source_heads(check_domains(data.X[kept], data.y[kept], data.sample_domain[kept]))
    groups = find_groups(rows_of_sources(sources))
    outcome = play_latent(sources, groups)
    assert outcome.reason == "" and outcome.outside == ()
    assert find_outside(sources, groups, outcome.pooled) == ()


def test_advantage_and_price_are_those_of_held_out_rows(
    sources: SourceHeads, groups: Groups
) -> None:
    outcome = play_latent(sources, groups)
    assert outcome.advantage is not None
    told = outcome.advantage.baseline, outcome.advantage.value
    for value, rows in zip(told, (outcome.pooled, outcome.held_out), strict=True):
        assert value == pytest.approx(float((outcome.targets.blocks[0] @ rows.loss).max()))
    change = outcome.held_out.loss - outcome.pooled.loss
    assert outcome.price == pytest.approx(float(sources.weight @ change))


def test_without_a_factor_the_head_is_erms_exactly() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 8))
    y = (X[:, 0] > 0).astype(int)
    halves = np.arange(300) % 2
    model = CROClassifier().fit(X, y, halves)
    erm = ERMClassifier().fit(X, y, halves)
    assert model.certificate_.reason == NO_FACTOR
    assert (model.coef_ == erm.coef_).all()
    assert (model.intercept_ == erm.intercept_).all()
    with pytest.raises(ValueError, match="no hidden factor"):
        model.witness()


def test_without_overlap_the_head_is_erms_exactly() -> None:
    data = make_confounded_domains(500, strengths=(1.0, 0.0), random_state=0)
    model = CROClassifier().fit(data.X, data.y, data.sample_domain)
    erm = ERMClassifier().fit(data.X, data.y, data.sample_domain)
    assert model.certificate_.reason == NO_OVERLAP
    assert (model.coef_ == erm.coef_).all()


def test_certificate(data: ConfoundedDomains, model: CROClassifier) -> None:
    certificate = model.certificate_
    assert isinstance(certificate, GroupCertificate)
    again = GroupCertificate.from_dict(certificate.to_dict())
    assert again == certificate
    assert certificate.risk_bound >= max(each.risk for each in certificate.sources)
    assert certificate.accuracy_bound <= min(each.accuracy for each in certificate.sources)
    # The truth, on the unseen domain, which is nearly all of the other group.
    probability = model.predict_proba(data.X_target)[np.arange(len(data.y_target)), data.y_target]
    assert -np.log(probability).mean() <= certificate.risk_bound
    assert certificate.pooled_risk_bound > certificate.risk_bound
    words = certificate.summary()
    assert f"{certificate.risk_bound:.3f} nats" in words
    assert f"{certificate.accuracy_bound:.1%}" in words


def test_certificate_covers_every_mixture(sources: SourceHeads, groups: Groups) -> None:
    for options in ({}, {"prior_shift": 1.0}, {"class_groups": True}):
        outcome = play_latent(sources, groups, **options)
        certificate = certify_latent(outcome, sources, ["a", "b"], {})
        loss = outcome.held_out.loss
        shares = torch.linspace(0, 1, 21, dtype=torch.float64)
        for block in [outcome.targets.blocks] if not options.get("class_groups") else []:
            risks = [float((p * block[0][0] + (1 - p) * block[0][1]) @ loss) for p in shares]
            assert max(risks) <= certificate.risk_bound
        assert float(outcome.targets.worst(loss)[0] @ loss) <= certificate.risk_bound


def test_bounds_use_the_effective_number_of_rows() -> None:
    rng = np.random.default_rng(0)
    truth, covered, correct_covered = 1.0, 0, 0
    weight = torch.tensor([1.0] * 40 + [9.0] * 40, dtype=torch.float64)
    for _ in range(300):
        loss = torch.from_numpy(rng.exponential(size=80))
        correct = torch.from_numpy((rng.random(80) < 0.8).astype(float))
        evidence = measure("x", weight / weight.sum(), HeldOutRows(loss, correct))
        covered += evidence.risk_bound >= truth
        correct_covered += evidence.accuracy_bound <= 0.8
    assert evidence.rows == pytest.approx(400**2 / (40 + 40 * 81))
    assert covered >= 0.85 * 300  # exponential losses are skewed: fewer than 95 percent
    assert correct_covered >= 0.92 * 300


def test_witness_moves_every_row_alike(data: ConfoundedDomains, model: CROClassifier) -> None:
    witness = model.witness()
    assert max(witness.fit_residual, witness.biorthogonality_residual) < 1e-8
    rows = torch.from_numpy(np.column_stack([data.X, np.ones(len(data.y))]))
    move = witness.transplant(0)(rows) - rows
    assert torch.allclose(move, move[0].expand_as(move))
    assert move[0, :-1].norm() > 0.1
    # The label is read as before, the group is not: that is what a transplant means.
    head = torch.from_numpy(model._head)
    change = move[0] @ (head[1] - head[0])
    assert abs(float(change)) < 1e-8
    same = model.witness({0: 0.1, 1: 0.9})
    assert same.rank == 1
    with pytest.raises(ValueError, match="one weight for each"):
        model.witness({0: 1.0})
