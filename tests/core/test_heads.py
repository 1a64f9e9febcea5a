from typing import Any

import numpy as np
import pytest
import torch

from regraft.core import heads as module
from regraft.core import ridge_path
from regraft.core.domains import check_domains
from regraft.core.heads import POOLED_RIDGES, SHRINKAGES, SOURCE_RIDGES, fit_source_heads
from regraft.core.lbfgs import minimize_batch
from regraft.core.newton import log_probabilities, losses, minimax_newton
from tests.helpers.problems import Problem, make_problem


def test_rows_are_sorted_by_domain_and_complete(three_sources: Problem) -> None:
    p = three_sources
    fitted = p.sources
    order = fitted.order.numpy()
    assert sorted(order) == list(range(len(p.y)))
    assert (fitted.y.numpy() == p.y[order]).all()
    names = np.unique(p.domain)
    for name, rows in zip(names, fitted.slices, strict=True):
        assert set(p.domain[order[rows]]) == {name}
    assert (names[fitted.domain.numpy()] == p.domain[order]).all()
    assert torch.allclose(fitted.whitening(torch.from_numpy(p.X), fitted.order), fitted.Z)


def test_heads_are_optimal_for_the_chosen_regularization(three_sources: Problem) -> None:
    p = three_sources
    fitted = p.sources
    choice = fitted.regularization
    assert choice.shrinkage in SHRINKAGES
    assert choice.pooled_ridge in POOLED_RIDGES
    assert choice.source_ridge in SOURCE_RIDGES
    zero = torch.zeros_like(fitted.pooled)
    every = slice(None), fitted.pooled, choice.pooled_ridge, zero
    each = [
        (rows, head, choice.source_ridge, fitted.pooled)
        for rows, head in zip(fitted.slices, fitted.heads, strict=True)
    ]
    for rows, head, ridge, anchor in (every, *each):
        weight = fitted.weight[rows] / fitted.weight[rows].sum()
        data = fitted.Z[rows], fitted.y[rows], weight[None]
        best = minimax_newton(*data, ridge=ridge, start=zero, anchor=anchor, tolerance=1e-10)
        assert torch.allclose(head, best.head, atol=1e-3)


def test_cross_validation_matches_plain_refits(problem: Problem) -> None:
    """The batched path gives the held-out likelihood that separate fits give."""
    p = problem
    domains = check_domains(*p.data)
    fitted = fit_source_heads(domains)
    choice = fitted.regularization
    _, fold = module._sort_and_fold(domains, fitted.whitening.mean)
    total = 0.0
    for f in range(3):
        train = fold != f
        weight = fitted.weight * train
        zero = torch.zeros_like(fitted.pooled)
        pooled = minimax_newton(
            fitted.Z, fitted.y, (weight / weight.sum())[None], ridge=choice.pooled_ridge, start=zero
        ).head
        for rows in fitted.slices:
            kept = weight[rows] / weight[rows].sum()
            Z, y, ridge = fitted.Z[rows], fitted.y[rows], choice.source_ridge
            own = minimax_newton(Z, y, kept[None], ridge=ridge, start=pooled, anchor=pooled)
            loss = losses(log_probabilities(Z, own.head), y)
            outside = fitted.weight[rows] * ~train[rows]
            total -= float(outside @ loss)
    assert choice.log_likelihood == pytest.approx(total, abs=2e-4)


def test_held_out_losses_are_those_of_heads_without_the_fold(problem: Problem) -> None:
    fitted = problem.sources
    folds, seen = fitted.held_out, []

    def recall(rows: torch.Tensor) -> torch.Tensor:
        (left_out,) = folds.fold[~rows].unique().tolist()
        seen.append(left_out)
        return folds.pooled[left_out]

    loss = fitted.held_out_losses(recall)
    assert sorted(seen) == [0, 1, 2]
    assert torch.equal(loss, folds.pooled_losses(fitted.Z, fitted.y))


def test_wide_heads_use_the_diagonal_and_agree(
    three_sources: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def minimize_closely(*problem: Any, tolerance: float) -> torch.Tensor:
        return minimize_batch(*problem, tolerance=1e-4 * tolerance)

    monkeypatch.setattr(ridge_path, "minimize_batch", minimize_closely)
    domains = check_domains(*three_sources.data)
    dense = fit_source_heads(domains)
    monkeypatch.setattr(ridge_path, "_MAX_DENSE_PARAMETERS", 0)
    diagonal = fit_source_heads(domains)
    # Likelihoods may tie to the tolerance of the fits, so compare these and not the choice.
    assert diagonal.regularization.log_likelihood == pytest.approx(
        dense.regularization.log_likelihood, abs=1e-5
    )


def test_noise_is_shrunk_away() -> None:
    """Sources that do not disagree get heads close to the pooled one."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 20))
    y = (X[:, 0] + rng.standard_normal(600) > 0).astype(int)
    fitted = fit_source_heads(check_domains(X, y, np.repeat([0, 1], 300)))
    unlike = make_problem(d=20)
    other = unlike.sources
    spread = [float(((f.heads - f.pooled) @ f.Z.T).square().mean().sqrt()) for f in (fitted, other)]
    assert spread[0] < 0.2 < spread[1]


def test_learner_ridge_shrinks_without_turning(three_sources: Problem) -> None:
    p = three_sources
    fitted = p.sources
    pooled = fitted.regularization.pooled_ridge
    assert torch.allclose(fitted.learner_ridge(None), torch.full_like(fitted.Z[0], pooled))
    # Adding to the number adds that multiple of the logits' second moment to the penalty.
    extra = fitted.learner_ridge(pooled + 1.0) - fitted.learner_ridge(None)
    head = torch.randn(3, fitted.Z.shape[1], dtype=torch.float64)
    moment = (fitted.weight[:, None] * (fitted.Z @ head.T).square()).sum()
    assert torch.allclose((extra * head.square()).sum(), moment)
