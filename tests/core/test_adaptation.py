"""Adaptation by labels: coordinates with a prior, and corrections beyond the family."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from regraft.core.adaptation import (
    FOLDS,
    LabelledRows,
    apply_correction,
    choose_correction,
    deal_folds,
    fit_coordinates,
    fit_correction,
    no_correction,
    predict_coordinates,
)


def test_the_prior_is_that_of_a_further_source() -> None:
    prior = predict_coordinates(torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64))
    assert float(prior.center) == pytest.approx(1.0)
    assert float(prior.scale) == pytest.approx((1 + 1 / 3) ** 0.5)
    assert prior.freedom == 2
    far, near = (float(prior.penalty(torch.tensor([z]))) for z in (9.0, 2.0))
    assert far > near > float(prior.penalty(prior.center)) == 0


def test_few_labels_stay_at_the_prior_and_many_overrule_it() -> None:
    prior = predict_coordinates(torch.tensor([[1.5], [2.5]], dtype=torch.float64))

    def log_likelihood(n: int):  # type: ignore[no-untyped-def]
        # n throws, of which one in ten shows heads; z is the log-odds of heads.
        logsigmoid = torch.nn.functional.logsigmoid
        return lambda z: (0.1 * n * logsigmoid(z) + 0.9 * n * logsigmoid(-z)).sum()

    found = [float(fit_coordinates(log_likelihood(n), prior)) for n in (0, 10, 1000)]
    assert found[0] == pytest.approx(2.0, abs=1e-3)
    assert found[1] < 0  # the tails are heavy: ten throws are enough to leave
    assert found[2] == pytest.approx(np.log(1 / 9), abs=0.05)


def _problem(n: int, strength: float, seed: int = 0) -> tuple[LabelledRows, Tensor]:
    """Return rows whose label follows a base head, and a direction of its own if strength > 0."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    y = (rng.random(n) < 1 / (1 + np.exp(-2 * X[:, 0] - strength * X[:, 1]))).astype(int)
    base = torch.log_softmax(torch.tensor(np.outer(X[:, 0], [-1.0, 1.0])), dim=1)
    labels = torch.from_numpy(y)
    return LabelledRows(torch.from_numpy(X), labels, deal_folds(labels)), base


def test_a_head_that_is_right_is_not_corrected() -> None:
    rows, base = _problem(200, strength=0.0)
    choice = choose_correction(rows, [base.expand(FOLDS, -1, -1)])
    assert choice.base == 0 and choice.ridge is None
    assert torch.equal(choice.log_p, base)


def test_labels_correct_a_head_that_misses_a_direction() -> None:
    rows, base = _problem(400, strength=3.0)
    useless = torch.full_like(base, np.log(0.5)).expand(FOLDS, -1, -1)
    choice = choose_correction(rows, [useless, base.expand(FOLDS, -1, -1)])
    assert choice.ridge is not None
    correction = fit_correction(rows, base, choice.ridge)
    new, new_base = _problem(4000, strength=3.0, seed=1)
    logits = apply_correction(correction, new_base, new.X)
    right = [(p.argmax(dim=1) == new.y).double().mean() for p in (new_base, logits)]
    assert right[1] > right[0] + 0.05


def test_labels_alone_win_where_a_head_misleads() -> None:
    """A correction must first undo a head that is sure of the wrong class."""
    rows, base = _problem(60, strength=3.0)
    misleading = torch.log_softmax(-8 * base, dim=1)
    ignorant = torch.full_like(base, np.log(0.5))
    choice = choose_correction(
        rows, [each.expand(FOLDS, -1, -1) for each in (misleading, ignorant)]
    )
    assert choice.base == 1 and choice.ridge is not None


@pytest.mark.parametrize("better", [0, 1])
def test_few_labels_take_the_better_of_two_heads_as_it_is(better: int) -> None:
    rows, _ = _problem(12, strength=3.0)
    good = torch.log(torch.nn.functional.one_hot(rows.y, 2).double() * 0.6 + 0.2)
    ignorant = torch.full_like(good, 0.5).log()
    heads = [good, ignorant] if better == 0 else [ignorant, good]
    choice = choose_correction(rows, [head.expand(FOLDS, -1, -1) for head in (*heads, 2 * good)])
    assert choice.base == better and choice.ridge is None and choice.tried == 2


def test_a_strong_ridge_changes_nothing() -> None:
    rows, base = _problem(100, strength=3.0)
    strong = fit_correction(rows, base, 1e6)
    np.testing.assert_allclose(strong, no_correction(2, 5), atol=1e-5)
    np.testing.assert_allclose(apply_correction(no_correction(2, 5), base, rows.X), base)


def test_very_many_rows_are_thinned_over_all_of_them() -> None:
    rows, _ = _problem(9000, strength=0.0)
    few = rows.thin()
    assert len(few) <= 4000 and int(few[-1]) > 8990
    assert torch.equal(rows.take(few).y, rows.y[few])


def test_folds_spread_the_classes() -> None:
    rows, _ = _problem(53, strength=0.0)
    counts = [torch.bincount(rows.y[rows.fold == f], minlength=2) for f in range(FOLDS)]
    spread = torch.stack(counts).amax(dim=0) - torch.stack(counts).amin(dim=0)
    assert (spread <= 1).all()
