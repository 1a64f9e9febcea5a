"""Rows that two heads get wrong which learn from one half of the rows each and echo each other.

Cross-risk minimization (Pezeshki et al. 2023) in linear form. Labels that would be replaced at
random are replaced in expectation, so there is no seed: a row has a share of each class.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regraft.core.heads import SHRINKAGES, SourceHeads, deal_rows
from regraft.core.lbfgs import minimize_batch
from regraft.core.newton import log_probabilities, logits
from regraft.core.whitening import chunks_of

_RIDGES = (1e-1, 1e-2, 1e-3)
_MAX_ROUNDS = 20
_SETTLED = 1e-3  # mean change of the rows' shares in a round
_TOLERANCE = 1e-4  # nats of excess risk at which a fit stops


def find_cross_mistakes(sources: SourceHeads) -> Tensor:
    """Return which rows (n,) either of the twin heads gets wrong.

    Halves are dealt by domain, class and distance from the mean. The ridge acts on nearly raw
    coordinates, where strong directions are learned first. Of several, the one is taken under which
    most labels were replaced: the paper's own rule, which needs no groups.
    """
    half = deal_rows(sources.y, sources.domain, 2)
    penalty = sources.whitening.penalty(SHRINKAGES[-1])
    answers = [_train_twins(sources, half, ridge * penalty) for ridge in _RIDGES]
    twins, _ = max(answers, key=lambda answer: answer[1])
    first, second = (logits(sources.Z, twin).argmax(dim=1) != sources.y for twin in twins)
    return first | second


def _train_twins(sources: SourceHeads, half: Tensor, ridge: Tensor) -> tuple[Tensor, float]:
    """Fit both heads and replace labels in turns, until they settle.

    Return the heads (2, C, k), and the weighted share of labels that were replaced.
    """
    classes = len(sources.pooled)
    original = torch.nn.functional.one_hot(sources.y, classes).to(ridge.dtype)
    shares, twins = original, torch.zeros_like(sources.pooled).expand(2, -1, -1)
    for _ in range(_MAX_ROUNDS):
        twins = _fit_twins(sources.Z, _balance(shares, sources.weight, half), ridge, twins)
        first, second = (log_probabilities(sources.Z, twin).exp() for twin in twins)
        confidence, answer = torch.where((half == 1).unsqueeze(1), first, second).max(dim=1)
        # Guesses replace nothing, certain answers everything.
        replaced = ((confidence * classes - 1) / (classes - 1)).unsqueeze(1)
        change = replaced * (torch.nn.functional.one_hot(answer, classes) - shares)
        shares = shares + change
        if float(sources.weight @ change.abs().sum(dim=1)) / 2 < _SETTLED:
            break
    return twins, float(sources.weight @ (1 - (shares * original).sum(dim=1)))


def _balance(shares: Tensor, weight: Tensor, half: Tensor) -> Tensor:
    """Return masses (2, n, C) of rows and classes: in each half, classes weigh the same."""
    masses = torch.stack([(weight * (half == h)).unsqueeze(1) * shares for h in (0, 1)])
    totals = masses.sum(dim=1, keepdim=True)
    # Where each domain has one row of a class, a half may lack the class, or all rows.
    present = totals > 0
    classes = present.sum(dim=2, keepdim=True).clamp_min(1)
    return masses / torch.where(present, totals, 1.0) / classes


def _fit_twins(Z: Tensor, masses: Tensor, ridge: Tensor, start: Tensor) -> Tensor:
    """Return the heads (2, C, k) of the smallest risk under masses (2, n, C) plus ridge (k,)."""
    shape = start.shape
    totals = masses.sum(dim=2)

    def value_and_gradient(flat: Tensor) -> tuple[Tensor, Tensor]:
        heads = flat.reshape(shape)
        value = (ridge * heads.square()).sum(dim=(1, 2))
        gradient = 2 * ridge * heads
        for rows in chunks_of(Z):
            chunk = Z[rows].to(heads.dtype)
            log_p = torch.log_softmax(chunk @ heads.transpose(1, 2), dim=2)
            value -= (masses[:, rows] * log_p).sum(dim=(1, 2))
            residual = log_p.exp() * totals[:, rows].unsqueeze(2) - masses[:, rows]
            gradient += residual.transpose(1, 2) @ chunk
        return value, gradient.flatten(1)

    # The curvature of a head that guesses, along each coordinate of the whitened rows.
    guess = (1 - 1 / shape[1]) / shape[1]
    squares = sum(totals[:, rows] @ Z[rows].square().to(start.dtype) for rows in chunks_of(Z))
    curvature = (guess * squares + 2 * ridge).repeat(1, shape[1])
    flat = minimize_batch(
        value_and_gradient, start.flatten(1), lambda g: g / curvature, tolerance=_TOLERANCE
    )
    return flat.reshape(shape)
