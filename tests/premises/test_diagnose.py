"""All checks together, with groups that were observed and without."""

import json
import math
import re
import warnings
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regraft import Diagnosis, diagnose, make_confounded_domains
from regraft.premises.answers import QUESTIONS
from regraft.support.json_files import dumps
from tests.helpers.factorized_domains import FactorizedDomains, draw_domains

CHECKS = {
    "sources disagree",
    "factorization closes",
    "abductions differ",
    "deduction is invariant",
    "a transplant basis exists",
}


@cache
def full() -> FactorizedDomains:
    return draw_domains(0, n=1000, d=8, classes=3, sources=3, shift="full")


@cache
def observed() -> Diagnosis:
    data = full()
    names = np.array(["Aarau", "Bern", "Chur"])[data.domain]
    return diagnose(data.X, data.y, names, np.array(["old", "young"])[data.group])


@cache
def small() -> FactorizedDomains:
    return draw_domains(1, n=150, d=5)


@cache
def with_steps(known: bool) -> tuple[Diagnosis, list[str]]:
    """Diagnose with groups that are known or not; also return the steps that were reported."""
    data, steps = small(), list[str]()
    group = data.group if known else None
    return diagnose(data.X, data.y, data.domain, group, on_progress=steps.append), steps


def latent() -> Diagnosis:
    return with_steps(known=False)[0]


def test_true_premises_look_satisfied() -> None:
    found = observed()
    verdicts = {name: check.verdict for name, check in found.checks.items()}
    assert verdicts == dict.fromkeys(CHECKS, "consistent")
    assert found.observed and found.groups == ("old", "young") and found.remarks == ()
    assert [each.question for each in found.answers] == list(QUESTIONS)
    assert found.domains == {"Aarau": 1000, "Bern": 1000, "Chur": 1000}
    assert (found.n_rows, found.n_features) == (3000, 8)
    assert found.invariance.n_cells == 6
    assert found.basis.columns == 3 * 1 + 2 * 2
    assert len(found.shifts.pairs) == len(found.angles.pairs) == 3
    assert [part.domain for part in found.closure.domains] == ["Aarau", "Bern", "Chur"]
    assert {(c.domain, c.group) for c in found.invariance.cells} == {
        (s, u) for s in ("Aarau", "Bern", "Chur") for u in ("old", "young")
    }


def test_what_is_wrong_is_found() -> None:
    data = draw_domains(0, n=800, d=8, reversed_last=True)
    found = diagnose(data.X, data.y, data.domain, data.group)
    assert found.checks["deduction is invariant"].verdict == "violated"
    assert found.checks["sources disagree"].verdict == "consistent"
    assert found.invariance.sentence in found.summary()
    data = draw_domains(0, n=300, d=9, groups=3, sources=2)
    group = data.group.copy()
    group[data.domain == 1] = 0
    found = diagnose(data.X, data.y, data.domain, group)
    assert found.invariance.n_cells == 4 and found.basis.columns == 7
    assert "some domain has no rows of some group (2 in all)" in found.basis.sentence
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 20)), rng.integers(2, size=300)
    found = diagnose(X, y, np.arange(300) % 2, groups=2)
    assert min(part.factorized.log_loss for part in found.closure.domains) > math.log(2)


@pytest.mark.parametrize("d", [2, 3])
def test_too_few_features_for_a_basis_are_found(d: int) -> None:
    data = draw_domains(0, n=300, d=d, groups=2, sources=2)
    found = diagnose(data.X, data.y, data.domain, data.group)
    assert found.checks["a transplant basis exists"].verdict == "violated"
    assert found.basis.columns == 4 and found.basis.rank == d


def test_without_groups_what_needs_them_stays_undecided() -> None:
    found = latent()
    assert not found.observed and found.groups == ("1", "2")
    verdicts = {name: check.verdict for name, check in found.checks.items()}
    assert verdicts.keys() == CHECKS
    assert verdicts["deduction is invariant"] == verdicts["abductions differ"] == "undecided"
    assert verdicts["a transplant basis exists"] == "consistent"
    assert found.invariance.cells == () and math.isnan(found.invariance.p_value)
    assert "cannot be tested without the groups" in found.invariance.sentence
    assert "cannot be tested without the groups" in found.angles.sentence
    held_out = [part.factorized.mean for part in found.closure.domains]
    assert len(held_out) == 2 and all(sum(mean) == pytest.approx(1) for mean in held_out)
    assert found.paragraphs()[-len(found.remarks) :] == found.remarks != ()


@pytest.mark.parametrize("find", [observed, latent])
def test_documents_are_plain_json(find: Callable[[], Diagnosis]) -> None:
    found = find()
    read = json.loads(dumps(found.to_dict()))
    assert read["rows"] == found.n_rows and read["groups_observed"] == found.observed
    assert read["summary"] == list(found.paragraphs()) and len(read["summary"]) >= 6
    for name, check in zip(
        ("heterogeneity", "closure", "angles", "invariance", "basis"),
        found.checks.values(),
        strict=True,
    ):
        assert read[name]["verdict"] == check.verdict
        assert read[name]["sentence"] == check.sentence
        assert check.sentence.endswith(".") and "\n" not in check.sentence
    assert (read["angles"]["p_value"] is None) == (not found.observed)
    assert read["shifts"]["diversity"] == found.shifts.diversity
    assert f"Diversity shift {found.shifts.diversity:.2f}" in read["summary"][9]
    assert [each["sentence"] for each in read["answers"]] == read["summary"][:4]
    assert read["factor"]["p_value"] == found.factor.p_value
    assert read["size"]["rows"] == found.size.rows


def test_steps_are_reported_and_the_seed_decides() -> None:
    (observed, steps), (latent, latent_steps) = with_steps(known=True), with_steps(known=False)
    assert observed.heterogeneity == latent.heterogeneity
    assert observed.shifts == latent.shifts
    assert steps == [
        "looking for a hidden factor",
        "testing whether the sources disagree",
        "measuring shifts",
        "fitting abduction and deduction maps",
        "predicting held-out rows",
        "comparing abductions",
        "comparing deductions",
        "looking for a transplant basis",
    ]
    assert "fitting 2 unobserved groups to two thirds of the rows, start 1 of 3" in latent_steps
    assert latent_steps[-1] == "looking for a transplant basis"
    data = small()
    again, other = (diagnose(data.X, data.y, data.domain, data.group, seed=seed) for seed in (0, 1))
    first = dumps(with_steps(known=True)[0].to_dict())
    assert first == dumps(again.to_dict()) != dumps(other.to_dict())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"group": np.full(300, "a")}, "group is a in every row: pass two groups or more."),
        ({"group": np.zeros(299)}, "X has 300 rows but group has 299: pass one per row."),
        (
            {"group": np.full(300, np.nan)},
            "group is missing, NaN or infinite in 300 rows, the first of them row 0: drop those "
            "rows.",
        ),
        ({"groups": 0}, "groups is 0: pass a number from 2 to 32."),
        ({"groups": 1}, "groups is 1: pass a number from 2 to 32."),
        ({"groups": 33}, "groups is 33: pass a number from 2 to 32."),
        (
            {"group": np.arange(300) % 101},
            "group has 101 values: pass 100 or fewer, for example by binning numbers.",
        ),
        ({"seed": -1}, "seed is -1: pass a number from 0 to 2**63 - 1."),
        ({"seed": 2**63}, f"seed is {2**63}: pass a number from 0 to 2**63 - 1."),
        ({"device": "abacus"}, "device 'abacus' is not available here: pass cpu."),
    ],
)
def test_what_is_refused(change: dict[str, object], sentence: str) -> None:
    data = small()
    arguments = {"X": data.X, "y": data.y, "sample_domain": data.domain} | change
    with pytest.raises(ValueError, match=rf"^{re.escape(sentence)}$"):
        diagnose(**arguments)  # type: ignore[arg-type]


@cache
def plain(known: bool) -> Diagnosis:
    data = draw_domains(2, n=60, shift="full")
    return diagnose(data.X, data.y, data.domain, data.group if known else None)


@given(
    st.booleans(),
    st.lists(st.floats(-3, 3), min_size=4, max_size=4),
    st.lists(st.floats(-1e3, 1e3), min_size=4, max_size=4),
)
@settings(max_examples=6)
def test_units_of_columns_make_no_difference(
    known: bool, exponents: list[float], shifts: list[float]
) -> None:
    data = draw_domains(2, n=60, shift="full")
    X = data.X * 10.0 ** np.array(exponents) + shifts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of columns that drown the others
        found = diagnose(X, data.y, data.domain, data.group if known else None)
    assert found.answers == plain(known).answers
    assert found.factor.p_value == plain(known).factor.p_value
    for name, check in plain(known).checks.items():
        assert found.checks[name].verdict == check.verdict
    for name in ("heterogeneity", "angles", "invariance"):
        p_values = [getattr(each, name).p_value for each in (found, plain(known))]
        assert p_values[0] == p_values[1] or np.isnan(p_values).all()


def test_a_confounder_is_found_and_its_absence_too() -> None:
    """The rules meet data: tied to the label with different strengths, or with the same."""
    answers = []
    for strengths in ((0.9, 0.6), (0.75, 0.75)):
        data = make_confounded_domains(
            800, n_classes=2, strengths=strengths, n_features=6, random_state=0
        )
        found = diagnose(data.X, data.y, data.sample_domain)
        answers.append([each.answer for each in found.answers])
    assert answers[0] == ["yes", "no", "yes", "use CRO"]
    assert answers[1] == ["none found", "as far as seen", "yes", "use ERM"]


def test_one_source_leaves_everything_else_undecided() -> None:
    data = small()
    for group in (None, data.group):
        found = diagnose(data.X, data.y, np.full(300, "Bern"), group)
        assert {check.verdict for check in found.checks.values()} == {"undecided"}
        assert found.paragraphs() == tuple(answer.sentence for answer in found.answers)
        assert found.answers[-1].answer == "collect labels"
        assert dumps(found.to_dict())


def test_of_very_many_rows_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regraft.premises.diagnose._MAX_ROWS", 200)
    data = small()
    found = diagnose(data.X, data.y, data.domain, data.group)
    assert found.n_rows == 300 and found.domains == {"0": 150, "1": 150}
    assert sum(sum(row.values()) for row in found.size.rows.values()) == 300
    assert found.heterogeneity.effective_rows <= 160 / 2
    assert found.remarks[0].startswith("The hidden factor and the tests come from 151 of the 300 ")


def test_shifts_and_maps_of_unobserved_groups_are_of_fewer_rows_and_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = with_steps(False)[0]
    monkeypatch.setattr("regraft.premises.diagnose._MAX_MAP_ROWS", 200)
    data = small()
    found = diagnose(data.X, data.y, data.domain)
    assert found.heterogeneity == whole.heterogeneity and found.factor == whole.factor
    assert found.shifts != whole.shifts and found.angles != whole.angles
    said = "The shifts and the maps of unobserved groups come from 151 of the 300 rows"
    assert found.remarks[0].startswith(said) and found.remarks[0] in found.summary()
    assert not any("thinned" in remark for remark in whole.remarks)
