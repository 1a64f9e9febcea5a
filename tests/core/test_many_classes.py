"""Very many classes: some choose the ridge, and the answer is close to that of all."""

import numpy as np
import pytest
import torch

from regraft import CROClassifier
from regraft.core import group_heads, heads, latent_game
from regraft.core.abduction import find_groups, rows_of_sources
from regraft.core.group_heads import fit_group_heads
from regraft.core.many_classes import take_classes
from tests.helpers.problems import Problem


def centres(classes: int) -> torch.Tensor:
    """Return the means (2, C, 3) of the groups of each class."""
    means = torch.from_numpy(np.random.default_rng(1).normal(size=(classes, 3))) * 12
    return torch.stack([means, means + torch.tensor([6.0, 0, 0])])


def draw(classes: int, n: int = 720) -> Problem:
    """Draw rows of two groups, whose shares differ by source."""
    rng = np.random.default_rng(0)
    y, domain = np.arange(n) % classes, np.array(["a", "b"])[rng.integers(2, size=n)]
    u = (rng.random(n) < np.where(domain == "a", 0.8, 0.3)).astype(int)
    return Problem(centres(classes).numpy()[u, y] + rng.normal(size=(n, 3)), y, domain)


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (heads, group_heads, latent_game):
        monkeypatch.setattr(module, "MANY_CLASSES", 35)


def test_classes_of_all_sizes_are_taken() -> None:
    y = torch.arange(200).repeat_interleave(torch.arange(200) % 50 + 1)
    some = take_classes(y, 200)
    sizes = torch.bincount(y)[some.classes]
    assert len(some.classes) == 32 and some.share == 32 / 200
    assert sizes.min() == 1 and sizes.max() == 50 and bool((some.classes.diff() > 0).all())
    assert torch.equal(some.classes[some.y], y[some.rows])


def test_some_classes_choose_heads_as_likely_as_all_do(
    few_are_many: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = draw(36)
    rough = problem.sources
    monkeypatch.undo()
    exact = Problem(problem.X, problem.y, problem.domain).sources
    losses = [float(each.held_out.pooled_losses(each.Z, each.y).mean()) for each in (rough, exact)]
    assert losses[0] == pytest.approx(losses[1], abs=0.05)
    assert rough.regularization.pooled_ridge < exact.regularization.pooled_ridge * 10
    assert torch.isfinite(rough.heads).all() and rough.heads.shape == exact.heads.shape


@pytest.mark.usefixtures("few_are_many")
def test_heads_of_groups_by_formula_are_nearly_as_likely_as_the_truth() -> None:
    problem, truth = draw(36), centres(36)
    sources = problem.sources
    groups = find_groups(rows_of_sources(sources))
    found = fit_group_heads(sources, groups)
    assert groups.n_groups == 2 and found.heads.shape == (2, 36, sources.Z.shape[1])
    X, y = torch.from_numpy(problem.X)[sources.order], sources.y
    squares = (X[:, None, None] - truth).square().sum(dim=3)  # (n, 2, C)
    best = torch.log_softmax(-squares.flatten(1) / 2, dim=1).reshape(squares.shape)
    logits = (sources.Z @ found.heads.flatten(0, 1).T).reshape(squares.shape)
    seen = torch.log_softmax(logits.flatten(1), dim=1).reshape(squares.shape)

    def likelihood(log_joint: torch.Tensor) -> float:
        return float(torch.logsumexp(log_joint, dim=1)[torch.arange(len(y)), y].mean())

    unseen = likelihood(found.log_joint)
    assert torch.equal(found.rows, torch.arange(len(y)))
    assert likelihood(best) - 0.15 < unseen <= likelihood(seen)


@pytest.mark.usefixtures("few_are_many")
def test_a_whole_fit_of_many_classes() -> None:
    problem = draw(36)
    model = CROClassifier().fit(*problem.data)
    assert model.certificate_.n_groups == 2 and model.certificate_.advantage is not None
    assert np.isfinite(model.group_heads_).all() and model.score(problem.X, problem.y) > 0.9


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.usefixtures("few_are_many")
def test_classes_of_fewer_rows_than_folds(rows: int) -> None:
    y, domain = np.tile(np.repeat(np.arange(36), rows), 2), np.repeat(["a", "b"], 36 * rows)
    X = centres(36).numpy()[0, y] + np.random.default_rng(0).normal(size=(len(y), 3))
    sources = Problem(X, y, domain).sources
    assert torch.isfinite(sources.heads).all() and sources.heads.shape == (2, 36, 4)
