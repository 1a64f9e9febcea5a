"""Adapt a head to a domain of which some labelled rows are known.

A placed head has few free numbers, so few labels suffice: the log-odds of the groups, or the
coordinates of a target in the hull. Their prior is what the sources predict for a further domain
drawn as they were: Student's distribution, whose tails are so heavy that labels soon overrule it.

With more labels, a correction may leave the family. It is a head on the log-probabilities of the
placed head and on the features, pulled by a ridge towards the placed head. A strong ridge keeps the
placed head and a weak one fits a new head, so the path joins the two. A head of the labels alone
is the correction of a head that knows nothing. Held-out labels choose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from regraft.core.guard import STANDARD_ERRORS
from regraft.core.newton import log_probabilities, losses, minimax_newton

FOLDS = 5
MIN_TO_CORRECT = 20  # labels; fewer choose between the two heads that are there without them
MIN_TO_MEASURE = 40  # labels; of fewer, losses near zero say nothing about the risk
_RIDGES = tuple(10.0 ** (1 - 0.5 * step) for step in range(13))
_WEAKEST = 0.05  # divided by the number of labels: a ridge below makes heads that are too sure
_TOLERANCE = 1e-4  # nats
_MAX_ROWS = 4000
_SMALLEST_SCALE = 1e-3  # of a prior, in nats


@dataclass(frozen=True)
class CoordinatePrior:
    """Student's distribution of the coordinates of a further domain, drawn as the sources were."""

    center: Tensor  # (m,)
    scale: Tensor  # (m,)
    freedom: int

    def penalty(self, z: Tensor) -> Tensor:
        """Return the negative log density of coordinates (m,), up to a constant."""
        ratio = ((z - self.center) / self.scale).square() / self.freedom
        return (self.freedom + 1) / 2 * torch.log1p(ratio).sum()


def predict_coordinates(sources: Tensor) -> CoordinatePrior:
    """Return the prior that coordinates (K, m) of two sources or more lead to."""
    K, center = len(sources), sources.mean(dim=0)
    scale = ((sources - center).square().sum(dim=0) / (K - 1) * (1 + 1 / K)).sqrt()
    return CoordinatePrior(center, scale.clamp_min(_SMALLEST_SCALE), K - 1)


def fit_coordinates(log_likelihood: Callable[[Tensor], Tensor], prior: CoordinatePrior) -> Tensor:
    """Return the coordinates (m,) of the largest penalized likelihood, a sum over rows."""
    if not len(prior.center):
        return prior.center

    def objective(z: NDArray[np.float64], share: float) -> tuple[float, NDArray[np.float64]]:
        point = torch.from_numpy(z).requires_grad_(True)
        value = share * prior.penalty(point) - log_likelihood(point)
        (slope,) = torch.autograd.grad(value, point)
        return float(value.detach()), slope.numpy()

    start = prior.center.numpy()
    # The penalty has two hollows if the labels are far from the prior, so search from both.
    far = minimize(objective, start, args=(0.01,), jac=True, method="L-BFGS-B").x
    found = [
        minimize(objective, each, args=(1.0,), jac=True, method="L-BFGS-B") for each in (start, far)
    ]
    return torch.from_numpy(min(found, key=lambda each: float(each.fun)).x)


@dataclass(frozen=True)
class LabelledRows:
    """Labelled rows of a domain."""

    X: Tensor  # (n, d) features, centred and scaled by what is known from the sources
    y: Tensor  # (n,)
    fold: Tensor  # (n,) as :func:`deal_folds` has it

    def thin(self) -> Tensor:
        """Return numbers of rows, spread over all, that are enough to choose by."""
        return torch.arange(0, len(self.y), -(-len(self.y) // _MAX_ROWS), device=self.y.device)

    def take(self, rows: Tensor) -> LabelledRows:
        """Return the rows with these numbers."""
        return LabelledRows(self.X[rows], self.y[rows], self.fold[rows])


def deal_folds(y: Tensor) -> Tensor:
    """Return the fold (n,) of each row; classes are spread evenly."""
    order = torch.argsort(y, stable=True)
    fold = torch.empty_like(y)
    fold[order] = torch.arange(len(order), device=order.device) % FOLDS
    return fold


@dataclass(frozen=True)
class Choice:
    """Which head held-out labels choose, and how it and the heads before did on them."""

    base: int  # number of the head that is corrected, or taken as it is
    ridge: float | None  # of the correction; None takes the head as it is
    log_p: Tensor  # (n, C) of each row, by the chosen kind of head fitted without it
    tried: int = 1  # how many kinds of head it was chosen from

    def risk(self, y: Tensor) -> float:
        """Return the mean cross-entropy of labels (n,)."""
        return float(losses(self.log_p, y).mean())

    def accuracy(self, y: Tensor) -> float:
        """Return the share of labels (n,) that are right."""
        return float((self.log_p.argmax(dim=1) == y).double().mean())


def choose_correction(rows: LabelledRows, bases: Sequence[Tensor]) -> Choice:
    """Choose one of several heads, and whether and how much it is corrected.

    ``bases`` are log-probabilities (F, n, C) of the rows, by heads that have not seen the labels of
    each fold. The first is taken as it is unless another has less risk by two standard errors, as
    in the guard of the game. Then, of the choices within a standard error of the least risk, the
    most accurate one is taken. Few labels cannot show such differences: they take the one of the
    first two heads that has less risk.
    """
    fold = rows.fold
    own = [base[fold, torch.arange(len(fold))] for base in bases]
    choices = [Choice(number, None, log_p) for number, log_p in enumerate(own)]
    if len(rows.y) < MIN_TO_CORRECT:
        few = choices[:2]
        return replace(min(few, key=lambda each: each.risk(rows.y)), tried=len(few))
    for number, base in enumerate(bases):
        known = [_extend(each, rows.X) for each in base]
        anchor = no_correction(base.shape[2], rows.X.shape[1])
        heads, lowest = [anchor] * FOLDS, choices[number].risk(rows.y)
        for ridge in (each for each in _RIDGES if each * len(rows.y) >= _WEAKEST):
            log_p = torch.empty_like(own[number])
            for f in range(FOLDS):
                kept, left = fold != f, fold == f
                heads[f] = _pull(known[f][kept], rows.y[kept], ridge, anchor, heads[f])
                log_p[left] = log_probabilities(known[f][left], heads[f])
            choice = Choice(number, ridge, log_p)
            if choice.risk(rows.y) > lowest:
                break
            lowest = choice.risk(rows.y)
            choices.append(choice)
    least = losses(min(choices, key=lambda each: each.risk(rows.y)).log_p, rows.y)
    gains = [losses(each.log_p, rows.y) - least for each in choices]
    errors = [float(gain.std()) / len(gain) ** 0.5 for gain in gains]
    if float(gains[0].mean()) <= STANDARD_ERRORS * errors[0]:
        return replace(choices[0], tried=len(choices))
    # Risks that cannot be told apart may go with accuracies that can.
    columns = zip(choices, gains, errors, strict=True)
    near = [each for each, gain, error in columns if float(gain.mean()) <= error]
    chosen = max(near, key=lambda each: (each.accuracy(rows.y), -each.risk(rows.y)))
    return replace(chosen, tried=len(choices))


def fit_correction(rows: LabelledRows, base: Tensor, ridge: float) -> Tensor:
    """Return the correction (C, C + d + 1) of log-probabilities ``base`` (n, C) of the rows."""
    anchor = no_correction(base.shape[1], rows.X.shape[1])
    return _pull(_extend(base, rows.X), rows.y, ridge, anchor, anchor)


def no_correction(n_classes: int, n_features: int) -> Tensor:
    """Return the correction that changes nothing."""
    return torch.eye(n_classes, n_classes + n_features + 1, dtype=torch.float64)


def apply_correction(correction: Tensor, base: Tensor, X: Tensor) -> Tensor:
    """Return the corrected logits (n, C) of rows (n, d) with log-probabilities (n, C)."""
    return _extend(base, X) @ correction.T


def _extend(base: Tensor, X: Tensor) -> Tensor:
    return torch.cat([base, X, torch.ones_like(X[:, :1])], dim=1)


def _pull(known: Tensor, y: Tensor, ridge: float, anchor: Tensor, start: Tensor) -> Tensor:
    """Return the head (C, k) on rows (n, k) that a ridge pulls towards an anchor."""
    weights = known.new_full((1, len(y)), 1 / len(y))
    return minimax_newton(
        known, y, weights, ridge=ridge, start=start, anchor=anchor, tolerance=_TOLERANCE
    ).head
