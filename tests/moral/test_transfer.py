"""What is said of bounds and groups, on made-up risks, and panels between panels."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regraft import CROClassifier, GroupCertificate
from regraft.moral.transfer import (
    BoundedHead,
    MeanLoss,
    TargetRow,
    Transfer,
    mix_panels,
)
from regraft.moral.values import PANELS
from regraft.premises.grouped_audit import AbductionPlacement, GroupedAudit
from regraft.premises.placement import HullPlacement
from tests.helpers.certificates import with_risk_bound
from tests.helpers.problems import make_problem

BETWEEN = "log prior 0.5 Pragmatist + 0.5 Idealist"
AUDIT = GroupedAudit(8.0, 0.7, {"Pragmatist": 2.0, "Idealist": -1.0}, "(+1,0,-1)", 0.9, 21)


@pytest.fixture(scope="module")
def heads() -> dict[str, BoundedHead]:
    """With the bounds 0.5, 0.7 and 0.9; the groups have risks of 0.3 and 0.4."""
    problem = make_problem(n=60, d=3)
    found = {}
    for family in ("hull", "latent"):
        model = CROClassifier(family).fit(problem.X, problem.y, problem.domain)
        certificate = model.certificate_
        if isinstance(certificate, GroupCertificate):
            one = replace(certificate.targets[0], rows=345.6, purity=0.9, risk=0.3)
            groups = one, replace(one, rows=123.4, purity=0.456, risk=0.4)
            certificate = replace(certificate, n_groups=2, targets=groups)
            certificate = with_risk_bound(certificate, 0.5)
        else:
            certificate = with_risk_bound(certificate, 0.5)
        found[f"CRO, {family}"] = BoundedHead(certificate, AUDIT)
    return found


def sentences(
    heads: dict[str, BoundedHead], risk: float, *, is_plausible: bool = False
) -> tuple[str, ...]:
    row = TargetRow(
        panel="Elsewhere",
        risks={name: MeanLoss(risk, 0.0123) for name in heads},
        placement=HullPlacement(1.234, {}, risk=0.65, own_risk=0.6),
        abduction=AbductionPlacement(along=0.567, off=2.891),
        is_plausible=is_plausible,
    )
    return Transfer(("A", "B"), "C", 8.0, (), heads, (row,), {}).sentences()


@pytest.mark.parametrize(
    ("risk", "words"),
    [
        (0.4, ("under", "under", "under")),
        (0.5, ("under", "under", "under")),  # a bound that is met is kept
        (0.6, ("OVER", "under", "under")),
        (0.8, ("OVER", "OVER", "under")),
        (0.95, ("OVER", "OVER", "OVER")),
    ],
)
def test_each_bound_is_said_to_be_kept_or_not(
    heads: dict[str, BoundedHead], risk: float, words: tuple[str, str, str]
) -> None:
    place, hull, latent, *_ = sentences(heads, risk)
    assert place == "Elsewhere is outside the hull of the sources' log priors."
    for name, sentence in (("CRO, hull", hull), ("CRO, latent", latent)):
        assert sentence == (
            f"Elsewhere: the true risk of {name}, {risk:.3f} ± 0.012 nats, is {words[0]} that of "
            f"its certificate, 0.500; {words[1]} that of the worst abduction (U observed), 0.700; "
            f"{words[2]} that of any mix of the 21 profiles met, 0.900."
        )
    inside = sentences(heads, risk, is_plausible=True)[0]
    assert inside == "Elsewhere is inside the hull of the sources' log priors."


def test_what_the_groups_say(heads: dict[str, BoundedHead]) -> None:
    _, _, _, said = sentences(heads, 0.43)  # within three errors of the largest group's
    assert said == (
        "CRO, latent found 2 groups, of at least 123 effective records each. The largest risk "
        "measured in one is 0.400 nats. Its certificate, 0.500, allows for records that may be of "
        "another group: as little as 46% of a group's weight lies on its own."
    )
    *_, outside = sentences(heads, 0.44)
    assert outside == (
        "Elsewhere is no mixture of the groups as they were measured: its risk is above that of "
        "each by more than 3 standard errors."
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda c: with_risk_bound(c, 0.694),
            "Its certificate, 0.694, more than the 0.693 of a coin, allows",
        ),
        (
            lambda c: replace(c, n_groups=1),
            "CRO, latent found no hidden factor: it certifies the pooled sources.",
        ),
    ],
)
def test_certificates_that_say_little(
    heads: dict[str, BoundedHead], change: Callable[[Any], Any], words: str
) -> None:
    latent = heads["CRO, latent"]
    changed = replace(latent, certificate=change(latent.certificate))
    *_, said = sentences({**heads, "CRO, latent": changed}, 0.3)
    assert words in said


@pytest.mark.parametrize(
    ("weights", "name", "masses"),
    [
        ((0.5, 0.5), BETWEEN, (0.08**0.5, 0.1, 0.08**0.5)),
        ((2, -1), "log prior 2 Pragmatist + -1 Idealist", (0.8**2 / 0.1, 0.1, 0.1**2 / 0.8)),
        ((1, 0, 0), "log prior 1 Pragmatist + 0 Idealist + 0 Centrist", (0.8, 0.1, 0.1)),
        ((0, 1, 0), "log prior 0 Pragmatist + 1 Idealist + 0 Centrist", (0.1, 0.1, 0.8)),
        ((0, 0, 1), "log prior 0 Pragmatist + 0 Idealist + 1 Centrist", (0.1, 0.8, 0.1)),
    ],
)
def test_panels_by_hand(weights: tuple[float, ...], name: str, masses: tuple[float, ...]) -> None:
    panel = mix_panels(PANELS[: len(weights)], weights)
    assert panel.name == name
    assert len(panel.prior) == 3
    for axis in panel.prior:
        assert axis == pytest.approx([mass / sum(masses) for mass in masses])


@given(st.floats(-3, 3), st.floats(-3, 3))
def test_mixed_panels_are_affine_in_their_log_odds(first: float, second: float) -> None:
    weights = first, second, 1 - first - second
    panel = mix_panels(PANELS, weights)
    for axis in range(3):
        assert sum(panel.prior[axis]) == pytest.approx(1)
        odds = [np.log(p.prior[axis][0] / p.prior[axis][2]) for p in (panel, *PANELS)]
        assert odds[0] == pytest.approx(float(np.dot(weights, odds[1:])), abs=1e-9)
