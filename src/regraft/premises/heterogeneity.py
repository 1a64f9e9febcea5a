"""Heterogeneity: tests whether the sources disagree about P(y | x).

If they agree, there is nothing to be robust against.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regraft.premises.factorization import GroupedRows
from regraft.premises.randomization import DRAWS, Randomization, crossfit_residuals, pooled_test
from regraft.premises.verdicts import LEVEL, NO_COMMON_CLASSES, ONE_SOURCE, Verdict, format_p_value
from regraft.support.plain_data import PlainData


@dataclass(frozen=True)
class Heterogeneity(PlainData):
    """Result of testing whether the label, given the input alone, depends on the domain."""

    verdict: Verdict
    sentence: str
    p_value: float
    draws: int  # of domains, which the p-value counts; 0 if there was nothing to test
    views: dict[str, float]  # squared correlations of residuals and domains, relative to chance
    source_p_values: tuple[float, ...]  # (K,) the same test on the residuals of each source
    effective_rows: float  # number of rows that could as well have come from another domain
    overlap: float  # that number as a share of what it were if inputs told nothing of their domain
    has_enough_rows: bool  # whether that is enough to compare labels
    accuracies: tuple[float, ...]  # (K,) of pooled heads in each source, on rows they have not seen

    @property
    def found(self) -> bool:
        """Whether the sources disagree, beyond chance."""
        return self.verdict == "consistent"

    @property
    def chance(self) -> str:
        """The p-value in words."""
        return format_p_value(self.p_value, self.draws)


def check_heterogeneity(
    rows: GroupedRows,
    *,
    probabilities: Tensor | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Heterogeneity:
    """Test whether the heads of all sources are equal, by residuals of pooled heads.

    Only rows of classes that every source has are compared. ``probabilities`` (n, K) are those of
    the source given the input, if they are known already.
    """
    residuals = crossfit_residuals(rows.labels())
    accuracies = _accuracies(rows, residuals)
    common, _ = rows.in_common_classes()
    if rows.n_domains == 1 or common.n_classes < 2:
        nan = float("nan")
        why = ONE_SOURCE if rows.n_domains == 1 else NO_COMMON_CLASSES
        return Heterogeneity("undecided", why, nan, 0, {}, (), 0.0, nan, False, accuracies)
    if common is not rows:
        rows, probabilities = common, None
        residuals = crossfit_residuals(rows.labels())
    test = pooled_test(rows, residuals, probabilities=probabilities, draws=draws, seed=seed)
    verdict, sentence = _judge(test)
    shares = torch.bincount(rows.domain) / len(rows.domain)
    most = len(rows.domain) * float(1 - shares.square().sum())
    return Heterogeneity(
        verdict=verdict,
        sentence=sentence,
        **test.reported,
        source_p_values=tuple(test.cell_p_values[:, 0].tolist()),
        overlap=min(test.effective_rows / most, 1.0),
        has_enough_rows=test.has_enough_rows,
        accuracies=accuracies,
    )


def _accuracies(rows: GroupedRows, residuals: Tensor) -> tuple[float, ...]:
    """Return the accuracy in each source, of probabilities that leave these residuals (n, C)."""
    probabilities = torch.nn.functional.one_hot(rows.y, rows.n_classes) - residuals
    right = (probabilities.argmax(dim=1) == rows.y).double()
    return tuple(float(right[rows.domain == s].mean()) for s in range(rows.n_domains))


def _judge(test: Randomization) -> tuple[Verdict, str]:
    p = format_p_value(test.p_value, test.draws)
    if not test.has_enough_rows:
        sentence = f"The sources share too few inputs to compare their labels ({test.overlap})."
        return "undecided", sentence
    if test.p_value <= LEVEL:
        return "consistent", f"The sources disagree about the label of like inputs ({p})."
    return "undecided", (
        f"No disagreement of the sources about the label of like inputs was found ({p}), so a "
        "robust head has little to gain on these data."
    )
