"""Twin heads: each is the best fit to its half, and what both miss is what a shortcut misleads."""

import pytest
import torch
from torch import Tensor

from regraft.core import cross_mistakes
from regraft.core.cross_mistakes import find_cross_mistakes
from regraft.core.domains import check_domains
from regraft.core.heads import SourceHeads, deal_rows, fit_source_heads
from regraft.core.newton import log_probabilities
from regraft.data.examples import ConfoundedDomains, make_confounded_domains
from tests.helpers.problems import normal


@pytest.fixture(scope="module")
def data() -> ConfoundedDomains:
    return make_confounded_domains(400, n_features=8, label_noise=0.1, random_state=0)


def fit(data: ConfoundedDomains) -> SourceHeads:
    return fit_source_heads(check_domains(data.X, data.y, data.sample_domain))


@pytest.fixture(scope="module")
def sources(data: ConfoundedDomains) -> SourceHeads:
    return fit(data)


def overlap(found: Tensor, truth: Tensor) -> float:
    """Rows in both, as a share of the rows in either."""
    return int((found & truth).sum()) / int((found | truth).sum())


def test_cross_mistakes_are_the_minority(data: ConfoundedDomains, sources: SourceHeads) -> None:
    """And not the wrong labels, which are as many."""
    found = find_cross_mistakes(sources)
    assert overlap(found, torch.from_numpy(data.confounder != data.y)[sources.order]) > 0.9
    assert overlap(found, torch.from_numpy(data.cause != data.y)[sources.order]) < 0.2


def test_without_a_shortcut_cross_mistakes_are_the_wrong_labels() -> None:
    data = make_confounded_domains(
        400, strengths=(0.5, 0.5), cause_signal=5.0, label_noise=0.1, random_state=0
    )
    sources = fit(data)
    wrong_label = torch.from_numpy(data.cause != data.y)[sources.order]
    assert overlap(find_cross_mistakes(sources), wrong_label) > 0.9


def test_the_echo_finds_more_than_the_first_fits(
    data: ConfoundedDomains, sources: SourceHeads, monkeypatch: pytest.MonkeyPatch
) -> None:
    minority = torch.from_numpy(data.confounder != data.y)[sources.order]
    echoed = overlap(find_cross_mistakes(sources), minority)
    monkeypatch.setattr(cross_mistakes, "_MAX_ROUNDS", 1)
    assert overlap(find_cross_mistakes(sources), minority) < echoed - 0.05


def test_the_ridge_is_that_of_most_replaced_labels(
    sources: SourceHeads, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = deal_rows(sources.y, sources.domain, 2)
    penalty = sources.whitening.penalty(10.0)
    replaced = {
        ridge: cross_mistakes._train_twins(sources, half, ridge * penalty)[1]
        for ridge in cross_mistakes._RIDGES
    }
    expected = find_cross_mistakes(sources)
    monkeypatch.setattr(cross_mistakes, "_RIDGES", (max(replaced, key=replaced.__getitem__),))
    assert torch.equal(find_cross_mistakes(sources), expected)
    assert max(replaced.values()) > min(replaced.values()) + 0.01


def test_twins_are_the_best_fits_to_their_halves(sources: SourceHeads) -> None:
    """The gradient vanishes for shared labels; classes weigh the same, the other half nothing."""
    half = deal_rows(sources.y, sources.domain, 2)
    shares = torch.softmax(2 * normal(0, len(half), 2), dim=1)
    masses = cross_mistakes._balance(shares, sources.weight, half)
    assert torch.allclose(masses.sum(dim=1), masses.new_full((2, 2), 0.5))
    assert not masses[0, half == 1].any() and not masses[1, half == 0].any()
    ridge = 0.01 * torch.ones_like(sources.pooled[0])
    start = torch.zeros(2, *sources.pooled.shape, dtype=ridge.dtype)
    twins = cross_mistakes._fit_twins(sources.Z, masses, ridge, start).requires_grad_()
    risks = [
        -(mass * log_probabilities(sources.Z, twin)).sum() + (ridge * twin.square()).sum()
        for mass, twin in zip(masses, twins, strict=True)
    ]
    (gradient,) = torch.autograd.grad(torch.stack(risks).sum(), twins)
    assert float(gradient.abs().max()) < 1e-2


def test_halves_share_every_domain_and_class(sources: SourceHeads) -> None:
    half = deal_rows(sources.y, sources.domain, 2)
    for s in (0, 1):
        for c in (0, 1):
            cell = half[(sources.domain == s) & (sources.y == c)]
            assert abs(int((cell == 0).sum()) - int((cell == 1).sum())) <= 1
