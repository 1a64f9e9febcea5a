"""Evidence for the answers of a diagnosis, made by hand."""

from itertools import product
from typing import Literal

from regraft.premises.answers import Findings
from regraft.premises.deduction_invariance import DeductionInvariance
from regraft.premises.heterogeneity import Heterogeneity
from regraft.premises.hidden_factor import HiddenFactor
from regraft.premises.sample_size import SampleSize
from regraft.premises.shifts import PairShift, Shifts
from regraft.premises.verdicts import Verdict

Factor = Literal["shared", "lone", "none"]
Labels = Literal["differ", "alike", "apart"]
NAN = float("nan")


def make_evidence(
    *,
    factor: Factor = "shared",
    labels: Labels = "differ",
    fewest: int = 300,
    margin: float = 0.04,
    observed: bool = False,
    violated: bool = False,
    sources: int = 2,
) -> Findings:
    """Sources Bern and Chur, whose labels differ and which share a factor unless told otherwise."""
    names = ("Bern", "Chur")[:sources]
    p_value = {"differ": 0.001, "alike": 0.4, "apart": 0.2}[labels]
    verdict: Verdict = "consistent" if labels == "differ" else "undecided"
    enough = labels != "apart"
    shares = ((0.9, 0.1), (0.6, 0.4)) if factor != "none" else ((1.0,), (1.0,))
    invariance = DeductionInvariance("undecided", "")
    if violated:
        invariance = DeductionInvariance("violated", "", 0.001, draws=999)
    return Findings(
        factor=HiddenFactor(
            n_groups=1 if factor == "none" else 2,
            shares=dict(zip(names, shares, strict=False)),
            p_value=0.3 if factor == "none" else 0.01,
            gain=0.03,
            gain_error=0.002,
            noise_gain=0.002,
            least_difference=0.07 if sources > 1 else NAN,
            separation=3.0,
            lone_holders={1: "Chur"} if factor == "lone" else {},
        ),
        heterogeneity=Heterogeneity(
            verdict=verdict,
            sentence="",
            p_value=p_value,
            draws=999,
            views={},
            source_p_values=(0.5, 0.002)[:sources],
            effective_rows=400.0 if enough else 20.0,
            overlap=0.7 if enough else 0.03,
            has_enough_rows=enough,
            accuracies=(0.8, 0.8)[:sources],
        ),
        shifts=Shifts(0.9, 0.1, (PairShift("Bern", "Chur", 0.9, 0.1),)[: sources - 1]),
        size=SampleSize(
            rows={name: {"ill": fewest, "well": 500} for name in names},
            accuracies=dict.fromkeys(names, 0.8),
            margins=dict.fromkeys(names, margin),
        ),
        invariance=invariance if observed else None,
    )


def possible_evidence() -> list[Findings]:
    """All kinds of evidence that rules tell apart."""
    found = [
        make_evidence(factor=f, labels=y, fewest=n, margin=m, observed=o, violated=o and v)
        for f, y, n, m, o, v in product(
            ("shared", "lone", "none"),
            ("differ", "alike", "apart"),
            (29, 300),
            (0.04, 0.1),
            (False, True),
            (False, True),
        )
        if o or not v
    ]
    return [*found, make_evidence(sources=1), make_evidence(sources=1, fewest=5)]
