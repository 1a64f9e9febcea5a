"""Do the sources disagree about P(y | x)? If not, there is nothing to be robust against."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from regraft.premises.factorization import GroupedRows
from regraft.premises.maps import Outcomes, choose_penalty
from regraft.premises.randomization import Randomization, pooled_test
from regraft.premises.verdicts import LEVEL, Verdict, p_text


@dataclass(frozen=True)
class Heterogeneity:
    """Whether the label, given the input alone, depends on the domain."""

    verdict: Verdict
    sentence: str
    p_value: float
    views: dict[str, float]  # squared correlations of residuals and domains over chance's
    effective_rows: float  # rows that might as well have come from another domain

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dictionaries."""
        return asdict(self)


def check_heterogeneity(rows: GroupedRows, *, draws: int, seed: int = 0) -> Heterogeneity:
    """Test whether the heads of all sources are equal, with residuals of pooled ones."""
    labels = Outcomes(rows.Z, rows.y, rows.n_classes)
    test = pooled_test(rows, labels, choose_penalty([labels]), draws=draws, seed=seed)
    verdict, sentence = _judge(test)
    return Heterogeneity(verdict, sentence, test.p_value, test.views, test.effective_rows)


def _judge(test: Randomization) -> tuple[Verdict, str]:
    p = p_text(test.p_value, test.draws)
    if not test.is_informed:
        return "undecided", (
            "The sources share too few inputs to compare their labels (about "
            f"{test.effective_rows:.0f} rows could have come from another domain)."
        )
    if test.p_value <= LEVEL:
        return "consistent", f"The sources disagree about the label of like inputs ({p})."
    return "undecided", (
        f"No disagreement of the sources about the label of like inputs was found ({p}), so a "
        "robust head has little to gain on these data."
    )
