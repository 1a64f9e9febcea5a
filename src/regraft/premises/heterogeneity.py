"""Heterogeneity: tests whether the sources disagree about P(y | x).

If they agree, there is nothing to be robust against.
"""

from __future__ import annotations

from dataclasses import dataclass

from regraft.premises.factorization import GroupedRows
from regraft.premises.multinomial_maps import choose_penalty
from regraft.premises.randomization import DRAWS, Randomization, pooled_test
from regraft.premises.verdicts import LEVEL, Verdict, format_p_value
from regraft.support.plain_data import PlainData


@dataclass(frozen=True)
class Heterogeneity(PlainData):
    """Result of testing whether the label, given the input alone, depends on the domain."""

    verdict: Verdict
    sentence: str
    p_value: float
    views: dict[str, float]  # squared correlations of residuals and domains, relative to chance
    effective_rows: float  # number of rows that could as well have come from another domain


def check_heterogeneity(rows: GroupedRows, *, draws: int = DRAWS, seed: int = 0) -> Heterogeneity:
    """Test whether the heads of all sources are equal, by residuals of pooled heads."""
    labels = rows.labels()
    test = pooled_test(rows, labels, choose_penalty([labels]), draws=draws, seed=seed)
    verdict, sentence = _judge(test)
    return Heterogeneity(verdict, sentence, test.p_value, test.views, test.effective_rows)


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
