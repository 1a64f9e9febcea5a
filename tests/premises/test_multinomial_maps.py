"""Multinomial maps: what their intercepts, penalties, anchors and folds must do."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from regraft.core.newton import log_probabilities
from regraft.premises.multinomial_maps import (
    FOLDS,
    PENALTIES,
    OutcomeData,
    choose_penalty,
    choose_penalty_on_pairs,
    crossfit_probabilities,
    deal_folds,
    fit_map,
)


def draw(seed: int = 0, n: int = 600, k: int = 3, m: int = 3, scale: float = 1.0) -> OutcomeData:
    """OutcomeData by softmax(W z) of standard normal rows, with W of this scale."""
    rng = np.random.default_rng(seed)
    Z = np.column_stack([rng.standard_normal((n, k)), np.ones(n)])
    scores = Z @ (scale * rng.standard_normal((m, k + 1))).T
    labels = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return OutcomeData(torch.from_numpy(Z), torch.from_numpy(labels), m)


def frequencies(data: OutcomeData) -> Tensor:
    return torch.bincount(data.labels, minlength=data.n_outcomes).double() / len(data.labels)


def probabilities(data: OutcomeData, weights: Tensor) -> Tensor:
    return log_probabilities(data.Z, weights).exp()


@pytest.mark.parametrize("penalty", [PENALTIES[0], PENALTIES[-1]])
@pytest.mark.parametrize("m", [2, 4])
def test_mean_probabilities_are_the_frequencies(m: int, penalty: float) -> None:
    data = draw(m=m)
    mean = probabilities(data, fit_map(data, penalty)).mean(dim=0)
    assert torch.allclose(mean, frequencies(data), atol=1e-3)


def test_an_infinite_penalty_leaves_the_frequencies_of_every_constant() -> None:
    """Two groups with a constant each keep frequencies of their own, however strong the penalty."""
    data = draw()
    weights = fit_map(data, 1e9)
    assert float(weights[:, :-1].abs().max()) < 1e-5
    expected = frequencies(data).expand(len(data.Z), -1)
    assert torch.allclose(probabilities(data, weights), expected, atol=1e-3)
    data = draw(m=2)
    second = data.Z[:, 0] > 0.5
    constants = torch.stack([~second, second], dim=1).double()
    data = OutcomeData(torch.cat([data.Z[:, :-1], constants], dim=1), data.labels, 2, n_constants=2)
    p = probabilities(data, fit_map(data, 1e9))
    for own in (second, ~second):
        share = data.labels[own].double().mean()
        assert torch.allclose(p[own, 1], share.expand(int(own.sum())), atol=2e-3)
    gap = data.labels[second].double().mean() - data.labels[~second].double().mean()
    assert abs(float(gap)) > 0.05


@pytest.mark.parametrize("penalty", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize(("m", "inverse"), [(3, 1.0), (2, 2.0)])
def test_slopes_are_those_of_logistic_regression(m: int, inverse: float, penalty: float) -> None:
    """Of C = 1 / penalty; for two outcomes of 2 / penalty, as both of their rows are penalized."""
    data = draw(n=4000, m=m)
    theirs = LogisticRegression(C=inverse / penalty, tol=1e-10, max_iter=1000)
    theirs.fit(data.Z[:, :-1].numpy(), data.labels.numpy())
    ours = fit_map(data, penalty)[:, :-1].numpy()
    if m == 2:
        ours = ours[1:] - ours[:1]
    assert np.abs(ours - theirs.coef_).max() < 1e-3
    other = LogisticRegression(C=3 * inverse / penalty, max_iter=1000)
    other.fit(data.Z[:, :-1].numpy(), data.labels.numpy())
    assert np.abs(ours - other.coef_).max() > 1e-3


def test_an_outcome_without_rows_stays_finite_and_rare_and_one_alone_is_all_but_certain() -> None:
    data = draw()
    wider = OutcomeData(data.Z, data.labels, 4)
    weights = fit_map(wider, 1.0)
    p = probabilities(wider, weights)
    assert weights.shape == (4, 4) and bool(weights.isfinite().all())
    assert 0 < float(p[:, 3].mean()) < 1e-3
    assert torch.allclose(p.mean(dim=0), frequencies(wider), atol=1e-3)
    weights = fit_map(OutcomeData(data.Z, torch.zeros_like(data.labels), 2), 1.0)
    assert bool(weights.isfinite().all())
    assert float(probabilities(data, weights)[:, 0].min()) > 0.95


def test_penalties_pull_to_the_anchor_which_a_map_without_rows_is() -> None:
    data = draw(m=2)
    none = data.take(torch.zeros(len(data.Z), dtype=torch.bool))
    anchor = torch.tensor([[1.0, 0.0, 2.0, 0.5], [-1.0, 0.0, -2.0, -0.5]], dtype=torch.float64)
    assert torch.equal(fit_map(none, 10.0, anchor=anchor), anchor)
    assert torch.equal(fit_map(none, 10.0), torch.zeros_like(anchor))
    slopes = torch.tensor([[0.7, -0.3, 1.1, 0.0]], dtype=torch.float64)
    anchor = torch.cat([slopes, -slopes])
    distances = [
        float((fit_map(data, penalty, anchor=anchor) - anchor)[:, :-1].norm())
        for penalty in (1.0, 100.0, 1e4, 1e9)
    ]
    assert distances == sorted(distances, reverse=True)
    assert distances[0] > 0.3 and distances[-1] < 1e-5


@given(st.integers(0, 1000), st.permutations(range(3)))
def test_gauge_and_names_of_outcomes(seed: int, names: list[int]) -> None:
    data = draw(seed, n=80, k=2)
    weights = fit_map(data, 3.0)
    assert float(weights.mean(dim=0).abs().max()) < 1e-14
    renamed = fit_map(OutcomeData(data.Z, torch.tensor(names)[data.labels], 3), 3.0)
    assert torch.allclose(renamed[names], weights, atol=1e-3)


def test_signals_noise_and_masks_choose_their_penalties() -> None:
    signal, noise = draw(n=3000, scale=3.0), draw(n=150, k=20, scale=0.0)
    assert choose_penalty([signal]) == PENALTIES[-1]
    assert choose_penalty([noise]) == PENALTIES[0]
    nothing = signal.take(torch.zeros(len(signal.Z), dtype=torch.bool))
    assert choose_penalty([signal, nothing]) == PENALTIES[-1]
    chosen = choose_penalty([noise, signal])
    assert PENALTIES[0] > chosen >= PENALTIES[-1]
    # Labels are those of a map in all rows but the first hundred, which are noise.
    data, noise = draw(n=3000, scale=3.0), draw(n=100, scale=0.0)
    labels = torch.cat([noise.labels, data.labels[100:]])
    mixed = OutcomeData(data.Z, labels, 3)
    is_noise = torch.arange(3000) < 100
    assert choose_penalty([mixed], [is_noise]) == PENALTIES[0]
    assert choose_penalty([mixed], [~is_noise & (torch.arange(3000) % 3 == 0)]) < 10
    third = deal_folds(3000, data.Z.device) == 0
    assert choose_penalty([mixed], [third]) == choose_penalty([mixed])


def test_a_right_anchor_is_kept_a_wrong_one_left_and_no_start_matters() -> None:
    data = draw(n=900, m=2, scale=2.0)
    pair = data.take(torch.arange(600)), data.take(torch.arange(600, 900))
    weak, strong = 1.0, 1e5
    right = fit_map(data, weak)
    assert choose_penalty_on_pairs([pair], (strong, weak), [right]) == strong
    assert choose_penalty_on_pairs([pair], (strong, weak), [-right]) == weak
    data = draw()
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(3, 4, dtype=torch.float64, generator=generator)
    assert torch.allclose(fit_map(data, 3.0, start=start), fit_map(data, 3.0), atol=1e-3)


def test_crossfitted_probabilities_are_of_maps_of_the_other_folds() -> None:
    data = draw(n=120)
    p = crossfit_probabilities(data, 3.0)
    fold = deal_folds(120, data.Z.device)
    assert fold.tolist() == [0, 1, 2] * 40  # dealt in turn
    assert torch.allclose(p.sum(dim=1), torch.ones(120, dtype=torch.float64))
    for f in range(FOLDS):
        alone = fit_map(data.take(fold != f), 3.0)
        assert torch.allclose(p[fold == f], probabilities(data.take(fold == f), alone), atol=1e-3)


@pytest.mark.parametrize("row", [0, 1, 2, 31])
def test_no_row_is_judged_by_its_own_label(row: int) -> None:
    data = draw(n=90, m=2)
    labels = data.labels.clone()
    labels[row] = 1 - labels[row]
    before = crossfit_probabilities(data, 3.0)
    change = (crossfit_probabilities(OutcomeData(data.Z, labels, 2), 3.0) - before).abs()
    same = deal_folds(90, data.Z.device) == row % FOLDS
    # Up to the solver's tolerance: later folds start where earlier ones ended.
    assert float(change[same].max()) < 1e-3
    assert float(change[~same].max()) > 2e-2


def test_crossfitting_chooses_its_penalty_and_can_do_with_fewer_rows() -> None:
    data = draw(n=300)
    p = crossfit_probabilities(data)
    chosen = choose_penalty([data])
    assert torch.allclose(p, crossfit_probabilities(data, chosen), atol=1e-3)
    few = crossfit_probabilities(data, chosen, most=60)
    alone = fit_map(data.take(torch.tensor([i for i in range(90) if i % 3])), chosen)
    assert torch.allclose(
        few[::3], probabilities(data.take(torch.arange(0, 300, 3)), alone), atol=1e-3
    )
    assert float((few - p).abs().max()) > 1e-2
