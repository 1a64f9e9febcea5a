"""Heads along ridges: the sums over rows, their reuse, and short floats."""

import pytest
import torch
from torch import Tensor

from regraft.core import newton
from regraft.core.newton import log_probabilities, losses, minimax_newton
from regraft.core.ridge_path import FOLDS, RidgePath, shorten


def draw(n: int = 300, k: int = 5, classes: int = 3) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    Z = torch.randn((n, k), generator=random, dtype=torch.float64)
    y = torch.randint(classes, (n,), generator=random)
    weight = torch.rand(n, generator=random, dtype=torch.float64)
    return Z, y, weight / weight.sum(), torch.arange(n) % FOLDS


def start_path(Z: Tensor, y: Tensor, weight: Tensor, fold: Tensor) -> RidgePath:
    penalties = torch.stack([torch.ones(5), torch.linspace(1, 3, 5)]).double()
    anchors = penalties.new_zeros((FOLDS, 2, int(y.max()) + 1, 5))
    return RidgePath(Z, y, weight, fold, penalties, anchors)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_heads_are_those_of_newton_without_each_fold(classes: int) -> None:
    Z, y, weight, fold = draw(classes=classes)
    path = start_path(Z, y, weight, fold)
    path.advance(1e-1)
    path.keep(torch.tensor([False, True]))
    path.advance(1e-2)  # begins with the sums of the ridge before
    likelihood = 0.0
    for f in range(FOLDS):
        rows = fold != f
        exact = minimax_newton(
            Z[rows],
            y[rows],
            (weight[rows] / weight[rows].sum())[None],
            ridge=1e-2 * torch.linspace(1, 3, 5).double(),
            start=torch.zeros_like(path.heads[f, 1]),
            tolerance=1e-12,
        ).head
        found = path.heads[f, 1]
        risks = [
            weight[rows] @ losses(log_probabilities(Z[rows], h), y[rows]) for h in (found, exact)
        ]
        assert float(risks[0]) == pytest.approx(float(risks[1]), abs=2e-4)
        loss = losses(log_probabilities(Z[~rows], found), y[~rows])
        likelihood -= float(weight[~rows] @ loss)
    assert float(path.likelihood[1]) == pytest.approx(likelihood, abs=1e-12)
    assert float(path.likelihood[0]) == -float("inf")


def test_sums_of_labels_need_no_column_for_every_class_and_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Z, y, weight, fold = draw(n=5000, classes=300)
    made: list[int] = []
    one_hot = torch.nn.functional.one_hot

    def note(labels: Tensor, n_classes: int) -> Tensor:
        made.append(len(labels) * n_classes)
        return one_hot(labels, n_classes)

    monkeypatch.setattr(torch.nn.functional, "one_hot", note)
    path = start_path(Z, y, weight, fold)
    assert max(made) <= 500_000 < 5000 * 300
    for f in range(FOLDS):
        rows = fold != f
        share = (weight[rows] / weight[rows].sum()).unsqueeze(1)
        sums = torch.zeros_like(path._labels[f]).index_add(0, y[rows], share * Z[rows])
        torch.testing.assert_close(path._labels[f], sums)


def test_sums_stay_finite_at_extreme_heads() -> None:
    for classes in (2, 3):
        Z, y, weight, fold = draw(classes=classes)
        path = start_path(1e6 * Z, y, weight, fold)
        path.advance(1e-1)
        assert torch.isfinite(path.heads).all() and torch.isfinite(path.likelihood).all()


def test_short_rows_give_the_same_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newton, "_MAX_LONG_NUMBERS", 0)
    Z, y, weight, fold = draw()
    short = shorten(Z)
    assert short.dtype == torch.float32
    paths = [start_path(rows, y, weight, fold) for rows in (Z, short)]
    for path in paths:
        path.advance(1e-1)
        path.advance(1e-3)
    assert paths[1].heads.dtype == torch.float64
    assert torch.allclose(paths[0].heads, paths[1].heads, atol=1e-4)
    assert torch.allclose(paths[0].likelihood, paths[1].likelihood, atol=1e-6)
