"""Deduction invariance: tests whether the label, given input and group, depends on the domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regraft.premises.factorization import GroupedRows, fix_gauge
from regraft.premises.multinomial_maps import (
    ANCHOR_PENALTIES,
    OutcomeData,
    choose_penalty_on_pairs,
    deal_folds,
    fit_map,
)
from regraft.premises.randomization import DRAWS, Randomization, crossfit_residuals, residual_test
from regraft.premises.verdicts import LEVEL, NO_COMMON_CLASSES, Verdict, format_p_value
from regraft.support.plain_data import PlainData

WELL_SAMPLED = 500  # records of a cell, from which on its cosine is reported by itself
_LEAST_RECORDS = 10  # records that a cell needs for a map of its own


@dataclass(frozen=True)
class DeductionCell:
    """One column of D fitted in one domain, compared to the column fitted in all domains."""

    domain: str
    group: str
    records: int
    cosine: float  # of D_s[:, u] with D[:, u], shrunk towards it as held-out rows suggest
    cosine_alone: float  # the same without shrinkage: mostly noise for few records
    p_value: float  # for the residuals of the cell, by redrawing domains


@dataclass(frozen=True)
class DeductionInvariance(PlainData):
    """Result of testing that the label, given input and group, ignores the domain.

    This is `ass:invariant-deduction`. ``p_value`` is that of the conditional randomization test.
    The cosines describe the maps and do not decide.
    """

    verdict: Verdict
    sentence: str
    # The defaults are those of groups never observed, where nothing can be tested.
    p_value: float = float("nan")
    # Squared correlations of residuals and domains, relative to chance.
    views: dict[str, float] = field(default_factory=dict)
    effective_rows: float = 0.0  # number of rows that could as well have come from another domain
    cells: tuple[DeductionCell, ...] = ()  # those with enough records, the largest first
    n_cells: int = 0  # with any records at all
    pull: float = float("nan")  # the penalty of departures from D that held-out rows chose
    draws: int = 0  # of domains, which the p-value counts


def check_invariance(
    rows: GroupedRows,
    deduction: Tensor,
    *,
    penalty: float,
    names: Sequence[str],
    groups: Sequence[str],
    draws: int = DRAWS,
    seed: int = 0,
) -> DeductionInvariance:
    """Compare the domains' deductions to ``deduction`` (k, r, C), the pooled one of ``penalty``.

    Only rows of classes that every domain has are compared.
    """
    n_cells = int((_counts(rows) > 0).sum())
    rows, common = rows.in_common_classes()
    if rows.n_classes < 2:
        return DeductionInvariance("undecided", NO_COMMON_CLASSES, n_cells=n_cells)
    if not bool(common.all()):
        deduction = fix_gauge(deduction[..., common])
    test = deduction_test(rows, penalty, draws=draws, seed=seed)
    cells, pull = _compare(rows, deduction, penalty, test, names, groups)
    verdict: Verdict = "violated" if test.p_value <= LEVEL else "consistent"
    if not test.has_enough_rows:
        verdict = "undecided"
    return DeductionInvariance(
        verdict=verdict,
        sentence=_sentence(verdict, test, cells),
        **test.reported,
        cells=cells,
        n_cells=n_cells,
        pull=pull,
    )


def deduction_test(
    rows: GroupedRows, penalty: float, *, draws: int = DRAWS, seed: int = 0
) -> Randomization:
    """Test y independent of s given x and u, by residuals of pooled deductions of ``penalty``."""
    residuals = torch.empty(len(rows.y), rows.n_classes).to(rows.Z)
    for u, data in enumerate(rows.labels_by_group()):
        residuals[rows.group == u] = crossfit_residuals(data, penalty)
    return residual_test(rows, residuals, draws=draws, seed=seed)


def _counts(rows: GroupedRows) -> Tensor:
    cell = rows.domain * rows.n_groups + rows.group
    counts = torch.bincount(cell, minlength=rows.n_domains * rows.n_groups)
    return counts.reshape(rows.n_domains, rows.n_groups).cpu()


def _compare(
    rows: GroupedRows,
    deduction: Tensor,
    penalty: float,
    test: Randomization,
    names: Sequence[str],
    groups: Sequence[str],
) -> tuple[tuple[DeductionCell, ...], float]:
    places = [(s, u) for s, u in torch.nonzero(_counts(rows) >= _LEAST_RECORDS).tolist()]
    pull = _choose_pull(rows, penalty, places)
    cells = []
    for s, u in places:
        data, anchor = _cell(rows, s, u), deduction[:, u].T
        pulled = fit_map(data, pull, anchor=anchor)
        alone = fit_map(data, penalty, start=anchor)
        cells.append(
            DeductionCell(
                domain=names[s],
                group=groups[u],
                records=len(data.labels),
                cosine=_cosine(rows, pulled, anchor),
                cosine_alone=_cosine(rows, alone, anchor),
                p_value=float(test.cell_p_values[s, u]),
            )
        )
    return tuple(sorted(cells, key=lambda cell: -cell.records)), pull


def _choose_pull(rows: GroupedRows, penalty: float, places: Sequence[tuple[int, int]]) -> float:
    """Choose the pull by every third row, which the pooled maps have not seen either."""
    held_out = deal_folds(len(rows.y), rows.y.device) == 0
    seen, unseen = rows.take(~held_out), rows.take(held_out)
    pooled = [fit_map(data, penalty) for data in seen.labels_by_group()]
    pairs = [(_cell(seen, s, u), _cell(unseen, s, u)) for s, u in places]
    return choose_penalty_on_pairs(pairs, ANCHOR_PENALTIES, [pooled[u] for _, u in places])


def _cell(rows: GroupedRows, s: int, u: int) -> OutcomeData:
    return rows.labels().take((rows.domain == s) & (rows.group == u))


def _cosine(rows: GroupedRows, one: Tensor, other: Tensor) -> float:
    """Return the cosine of two maps (C, k) as slopes on the features, intercepts aside."""
    a, b = (rows.whitening.to_features(m)[:, :-1].flatten() for m in (one, other))
    return float(torch.nn.functional.cosine_similarity(a, b, dim=0))


def _sentence(verdict: Verdict, test: Randomization, cells: Sequence[DeductionCell]) -> str:
    if verdict == "undecided":
        return (
            f"Domains share too few inputs and groups to compare their deductions ({test.overlap})."
        )
    depend = "depend" if verdict == "violated" else "do not visibly depend"
    p = format_p_value(test.p_value, test.draws)
    sentence = f"Labels {depend} on the domain, given input and group ({p})"
    large = [cell.cosine for cell in cells if cell.records >= WELL_SAMPLED]
    if large:
        sentence += (
            f"; columns of D with {WELL_SAMPLED} or more records have cosines of at least "
            f"{min(large):.3f} with the pooled ones"
        )
    return f"{sentence}."
