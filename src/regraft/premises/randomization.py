"""Conditional randomization test of Y independent of the domain given X and U.

If labels do not depend on the domain, given the input and its group, then domains redrawn from
P(s | x, u) are as good as the real ones. So the correlation of the labels' residuals with the real
domains is compared to that with many redrawn ones (Candès et al. 2018). Residuals are those of a
model that ignores domains, and domains are centred at P(s | x, u), so an error in only one of the
two models does no harm to first order (Shah & Peters 2020). Errors in both do harm: where the
deduction is far from linear in the features, and inputs of domains differ in ways that no linear
or squared feature shows, an invariant deduction may seem to vary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import gamma
from torch import Tensor

from regraft.core.newton import log_probabilities
from regraft.premises.factorization import GroupedRows
from regraft.premises.multinomial_maps import (
    ANCHOR_PENALTIES,
    FOLDS,
    OutcomeData,
    choose_penalty,
    choose_penalty_on_pairs,
    crossfit_probabilities,
    deal_folds,
    fit_map,
)

DRAWS = 999
_LEAST_DRAWS = 99
_MAX_OPERATIONS = 3e11  # multiplications and additions
_DRAWS_AT_ONCE = 50
_MAX_MODEL_ROWS = 25_000  # that a model of domains is fitted to; it predicts all rows
# With fewer effective rows, in all or on average in a cell, p-values are too small.
_LEAST_ROWS, _LEAST_ROWS_PER_CELL = 150.0, 15.0
_INTERCEPT_PENALTY = 2.0  # penalty of a group's intercepts, for groups of few rows
_N_SQUARED = 32  # leading coordinates whose squares enter the domain model
_LEAST_VARIANCE = 1e-6  # of domains in a group; with less, all of its rows are one domain's
_ROUNDING_TOLERANCE = 1e-4  # of the surprise, whose sums are in single precision
_LEAST_LOG_TAIL = -1e4  # nats
_ZERO_VARIANCE = 1e-10  # relative variance of draws that are all alike


@dataclass(frozen=True)
class Randomization:
    """Result of a conditional randomization test.

    Residuals may depend on domains in their mean or along the features, and in single groups or in
    all groups alike. ``views`` are these four (two, if there is one group): squared correlations
    as multiples of their expectation by chance, each about 1 if nothing depends on domains. The
    p-value is that of the most surprising view.
    """

    p_value: float  # (1 + draws at least as surprising) / (1 + draws)
    views: dict[str, float]
    cell_p_values: Tensor  # (K, r) of each domain and group; 1 where there is nothing to compare
    effective_rows: float  # sum over rows of the impurity of P(s | x, u)
    draws: int

    @property
    def reported(self) -> dict[str, Any]:
        """What the checks of premises report of their test, by the names of their fields."""
        names = ("p_value", "draws", "views", "effective_rows")
        return {name: getattr(self, name) for name in names}

    @property
    def has_enough_rows(self) -> bool:
        """Whether enough rows could have come from another domain to compare anything."""
        n_domains, n_groups = self.cell_p_values.shape
        fewest = max(_LEAST_ROWS, _LEAST_ROWS_PER_CELL * (n_domains - 1) * n_groups)
        return self.effective_rows >= fewest

    @property
    def overlap(self) -> str:
        """Words for the number of rows that could be compared."""
        return f"as many as {self.effective_rows:.0f} rows have inputs that other domains have too"


def domain_probabilities(
    Z: Tensor, domain: Tensor, n_domains: int, group: Tensor, n_groups: int
) -> Tensor:
    """Estimate P(s | x, u) (n, K) of rows in random order, by maps that have not seen them.

    Every group has its own intercepts, and slopes that depart from the shared ones as far as
    held-out rows support.
    """
    data = domain_outcomes(Z, domain, n_domains, group, n_groups)
    if n_groups == 1:
        return crossfit_probabilities(data, most=_MAX_MODEL_ROWS)
    Z, penalty = with_squares(Z), choose_penalty([data])
    alone = OutcomeData(Z, domain, n_domains)
    fold = deal_folds(len(Z), Z.device)
    probabilities = Z.new_empty((len(Z), n_domains))
    pull = None
    for f in range(FOLDS):
        anchors = _by_group(fit_map(data.take(fold != f), penalty), Z.shape[1])
        held_out = [(group == u) & (fold == f) for u in range(n_groups)]
        seen = [alone.take((group == u) & (fold != f)) for u in range(n_groups)]
        if pull is None:
            pairs = [(own, alone.take(rows)) for own, rows in zip(seen, held_out, strict=True)]
            pull = choose_penalty_on_pairs(pairs, ANCHOR_PENALTIES, anchors)
        for own, rows, anchor in zip(seen, held_out, anchors, strict=True):
            fitted = fit_map(own, pull, anchor=anchor)
            probabilities[rows] = log_probabilities(Z[rows], fitted).exp()
    return probabilities


def domain_outcomes(
    Z: Tensor, domain: Tensor, n_domains: int, group: Tensor, n_groups: int
) -> OutcomeData:
    """Return the domains (n,) as outcomes to predict from rows and groups."""
    intercepts = torch.nn.functional.one_hot(group, n_groups).to(Z.dtype)
    rows = torch.cat([with_squares(Z)[:, :-1], intercepts], dim=1)
    return OutcomeData(
        rows, domain, n_domains, n_constants=n_groups, constant_penalty=_INTERCEPT_PENALTY
    )


def with_squares(Z: Tensor) -> Tensor:
    """Prepend the squares of the leading coordinates to whitened rows (n, k).

    Domains often differ in the spread of their inputs, not only in their means.
    """
    leading = Z[:, :-1][:, -_N_SQUARED:]  # the whitening sorts its coordinates by rising variance
    return torch.cat([leading.square() - 1, Z], dim=1)


def _by_group(shared: Tensor, k: int) -> list[Tensor]:
    """Split a shared map (K, k - 1 + r) into one (K, k) per group: same slopes, own intercept."""
    slopes, intercepts = shared[:, : k - 1], shared[:, k - 1 :]
    return [torch.cat([slopes, intercept.unsqueeze(1)], dim=1) for intercept in intercepts.T]


def randomization_test(
    residuals: Tensor,
    Z: Tensor,
    domain: Tensor,
    group: Tensor,
    probabilities: Tensor,
    n_groups: int,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Randomization:
    """Test whether residuals (n, m), along whitened rows ``Z`` (n, k), depend on the domain (n,).

    ``residuals`` must be made without knowledge of the domains; ``probabilities`` (n, K) are
    P(s | x, u) of the rows, ``group`` (n,) their u. Domains are redrawn ``draws`` times, or less
    often, but at least 99 times, where that would take very long.
    """
    generator = torch.Generator().manual_seed(seed)
    n_domains = probabilities.shape[1]
    # One of the residuals is minus the sum of the others, and for two classes says nothing new.
    residuals = residuals[:, 1:] if residuals.shape[1] == 2 else residuals
    work = 2 * n_domains * residuals.shape[1] * Z.numel()  # of one draw
    draws = min(draws, max(_LEAST_DRAWS, int(_MAX_OPERATIONS / work)))
    common = Z.new_zeros(
        (draws + 1, n_domains, residuals.shape[1], Z.shape[1]), dtype=torch.float32
    )
    cells = torch.zeros(2, draws + 1, n_domains, n_groups)  # of means and of slopes
    compared = torch.zeros(n_domains, n_groups, dtype=torch.bool)
    for u in range(n_groups):
        rows = torch.nonzero(group == u).squeeze(1)
        if len(rows) == 0:
            continue
        p = probabilities[rows]
        labels = _redraw(domain[rows], p, draws, generator)
        sums = _sums(residuals[rows].float(), Z[rows].float(), labels, p.float())
        common += sums
        cells[:, :, :, u] = _squares(sums).cpu()
        compared[:, u] = (p * (1 - p)).sum(dim=0).cpu() > _LEAST_VARIANCE
    views = {
        "means by group": cells[0].sum(dim=(1, 2)),
        "slopes by group": cells[1].sum(dim=(1, 2)),
    }
    if n_groups > 1:
        squares = _squares(common).cpu().sum(dim=2)
        views |= {"means": squares[0], "slopes": squares[1]}
    return Randomization(
        p_value=float(_p_value(torch.stack(list(views.values())))),
        views={name: _multiple(view) for name, view in views.items()},
        cell_p_values=torch.where(compared, _p_value(cells), 1.0),
        effective_rows=float((1 - probabilities.square().sum(dim=1)).sum()),
        draws=draws,
    )


def pooled_test(
    rows: GroupedRows,
    residuals: Tensor,
    *,
    probabilities: Tensor | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Randomization:
    """Test whether residuals (n, m) of ``rows`` depend on the domain, given the input alone.

    ``probabilities`` (n, K) are :func:`pooled_probabilities`, if they are known already.
    """
    p = pooled_probabilities(rows) if probabilities is None else probabilities
    known = rows.Z, rows.domain, torch.zeros_like(rows.group), p, 1
    return randomization_test(residuals, *known, draws=draws, seed=seed)


def pooled_probabilities(rows: GroupedRows) -> Tensor:
    """Estimate P(s | x) (n, K) by maps that have not seen the row."""
    alike = torch.zeros_like(rows.group)
    return domain_probabilities(rows.Z, rows.domain, rows.n_domains, alike, 1)


def residual_test(
    rows: GroupedRows, residuals: Tensor, *, draws: int = DRAWS, seed: int = 0
) -> Randomization:
    """Test whether residuals (n, m) of ``rows`` depend on the domain, given input and group."""
    groups = rows.group, rows.n_groups
    p = domain_probabilities(rows.Z, rows.domain, rows.n_domains, *groups)
    known = rows.Z, rows.domain, rows.group, p, rows.n_groups
    return randomization_test(residuals, *known, draws=draws, seed=seed)


def crossfit_residuals(data: OutcomeData, penalty: float | None = None) -> Tensor:
    """Return outcomes minus their cross-fitted probabilities, (n, m).

    A map that has seen a row would explain away what is special about it. Without a ``penalty``,
    rows choose it.
    """
    one_hot = torch.nn.functional.one_hot(data.labels, data.n_outcomes)
    return one_hot - crossfit_probabilities(data, penalty)


def _multiple(view: Tensor) -> float:
    """Return the first draw over the mean of the others; 1 if all are zero."""
    mean = float(view[1:].mean())
    return float(view[0]) / mean if mean > 0 else 1.0


def _p_value(views: Tensor) -> Tensor:
    """Return the p-value (...) of the most surprising of ``views`` (v, 1 + draws, ...)."""
    surprise = torch.stack([_surprise(view) for view in views]).amax(dim=0)
    return (surprise >= surprise[0] - _ROUNDING_TOLERANCE).double().mean(dim=0)


def _surprise(view: Tensor) -> Tensor:
    """Return minus the log tail (draws + 1, ...) of a gamma distribution with the others' moments.

    Squared sums are nearly gamma; the draws themselves make the p-values, so it need not be exact.
    Each draw is left out of its own moments: the real one is treated as any other, and yet a large
    value does not hide itself.
    """
    draws: NDArray[np.float64] = view.double().numpy()
    others = len(draws) - 1
    mean = (draws.sum(axis=0) - draws) / others
    centred = draws - draws.mean(axis=0)
    shifted = (centred.sum(axis=0) - centred) / others
    variance = ((centred**2).sum(axis=0) - centred**2) / others - shifted**2
    varies = variance > _ZERO_VARIANCE * mean**2
    scale = np.divide(variance, mean, out=np.ones_like(mean), where=varies)
    shape = np.divide(mean, scale, out=np.ones_like(mean), where=varies)
    tail = gamma.logsf(draws, shape, scale=scale)
    return torch.from_numpy(np.where(varies, -np.maximum(tail, _LEAST_LOG_TAIL), 0.0))


def _redraw(domain: Tensor, p: Tensor, draws: int, generator: torch.Generator) -> Tensor:
    """Return domains (draws + 1, n): the real ones, then redrawn ones from ``p`` (n, K)."""
    uniform = torch.rand(draws, len(domain), generator=generator).to(p.device)
    drawn = torch.zeros(draws, len(domain), dtype=torch.int16, device=p.device)
    for bound in p.cumsum(dim=1)[:, :-1].float().T:
        drawn += uniform > bound
    return torch.cat([domain.to(torch.int16).unsqueeze(0), drawn])


def _sums(residuals: Tensor, Z: Tensor, labels: Tensor, p: Tensor) -> Tensor:
    """Sum residual x row x (domain minus its probability) over rows: (draws + 1, K, m, k)."""
    sums = Z.new_empty((len(labels), p.shape[1], residuals.shape[1], Z.shape[1]))
    for first in range(0, len(labels), _DRAWS_AT_ONCE):
        some = labels[first : first + _DRAWS_AT_ONCE]
        for s in range(p.shape[1]):
            surprise = (some == s).float() - p[:, s]  # (b, n)
            for m, residual in enumerate(residuals.T):
                sums[first : first + len(some), s, m] = (surprise * residual) @ Z
    return sums


def _squares(sums: Tensor) -> Tensor:
    """Return squared lengths (2, draws + 1, K) of sums: of their last entry, and of the rest."""
    squares = sums.square().sum(dim=2)
    return torch.stack([squares[..., -1], squares[..., :-1].sum(dim=-1)])
