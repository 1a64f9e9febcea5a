"""The moral experiment from end to end on few records, and what it says of made-up ones."""

import json
import re
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regraft.encoders import load_text_encoder
from regraft.estimators.baselines import ERMClassifier
from regraft.moral import experiment
from regraft.moral.experiment import (
    MoralResult,
    Sample,
    TargetRow,
    Transfer,
    mix_panels,
    run_moral,
)
from regraft.moral.library import make_library
from regraft.moral.process import DrawnRecords, draw_records
from regraft.moral.responses import MECHANISM, response_probabilities
from regraft.moral.values import PANELS, PROFILES, profile_name
from regraft.premises.abduction_angles import describe_angles
from regraft.premises.factorization import choose_penalties, fit_factorization
from regraft.support.json_files import dumps
from regraft.support.progress import ignore_progress

pytestmark = [
    pytest.mark.filterwarnings("ignore:[0-9]+ of [0-9]+ features are constant"),
    pytest.mark.filterwarnings("ignore:X has more features"),
]

Ran = tuple[MoralResult, DrawnRecords]
RECORDS = 300
LIBRARY = make_library(40)
PROBABILITIES = response_probabilities(LIBRARY)
draw = partial(draw_records, LIBRARY, PROBABILITIES, RECORDS)
BETWEEN = "log prior 0.5 Pragmatist + 0.5 Idealist"


def run(seed: int = 0, steps: list[str] | None = None) -> Ran:
    return run_moral(
        LIBRARY,
        PROBABILITIES,
        MECHANISM,
        load_text_encoder("hashed"),
        records=RECORDS,
        seed=seed,
        on_progress=ignore_progress if steps is None else steps.append,
    )


@pytest.fixture(scope="module")
def ran() -> Ran:
    return run()


@pytest.fixture(scope="module")
def transfer(ran: Ran) -> Transfer:
    return ran[0].transfer


def test_result_document_and_diagnosis_say_what_was_run(ran: Ran) -> None:
    result, drawn = ran
    assert result.mechanism == MECHANISM and "not from a language model" in result.mechanism
    assert result.origin == LIBRARY.origin and "40 scenarios generated" in result.origin
    assert (result.checksum, result.encoder) == (LIBRARY.checksum, "hashed")
    assert (result.records, result.seed) == (RECORDS, 0)
    expected = draw(seed=0)
    for name in ("scenario", "profile", "panel", "y"):
        np.testing.assert_array_equal(getattr(drawn, name), getattr(expected, name))
    document = json.loads(dumps(result.to_dict()))
    assert document["labels"] == MECHANISM
    assert document["median_angles"] == {"300": result.median_angles[RECORDS]}
    assert document["transfer"]["sentences"] == list(result.transfer.sentences())
    assert document["transfer"]["audit"]["any_prior"] == result.transfer.audit.any_prior
    assert document["diagnosis"]["closure"]["verdict"] == result.diagnosis.closure.verdict
    diagnosis = result.diagnosis
    assert diagnosis.domains == dict.fromkeys(("Centrist", "Idealist", "Pragmatist"), RECORDS)
    features = load_text_encoder("hashed").encode(LIBRARY.texts)
    varying = int((np.ptp(features, axis=0) > 0).sum())
    assert diagnosis.observed and diagnosis.n_rows == 3 * RECORDS
    assert diagnosis.n_features == varying < features.shape[1]
    met = {profile_name(PROFILES[profile]) for profile in drawn.profile}
    assert set(diagnosis.groups) == met and len(met) > 20
    assert result.median_angles == {RECORDS: diagnosis.angles.median}
    closures = diagnosis.closure, result.new_scenarios
    for closure in closures:
        assert [part.domain for part in closure.domains] == ["Centrist", "Idealist", "Pragmatist"]
    # A scenario that no map has seen is harder to predict than a record that none has seen.
    seen, unseen = (np.mean([d.direct.log_loss for d in c.domains]) for c in closures)
    assert unseen > seen


def test_the_transfer_leaves_a_panel_out_and_measures_records_drawn_anew(
    transfer: Transfer,
) -> None:
    assert transfer.sources == ("Pragmatist", "Idealist") and transfer.target == "Centrist"
    assert transfer.radius == transfer.certificate.radius == transfer.audit.radius == 8
    assert [head.name for head in transfer.heads] == ["ERM", "CRO"] == list(transfer.curves)
    names = {"Pragmatist", "Idealist"}
    assert set(transfer.audit.weights) == set(transfer.certificate.worst_target) == names
    known = {profile_name(profile) for profile in PROFILES}
    assert transfer.audit.worst_group in known
    assert 0 < transfer.audit.worst_case < transfer.audit.any_prior
    fresh = draw(seed=1)
    assert transfer.audit.n_groups == len(np.unique(fresh.profile[fresh.panel < 2]))
    for head in transfer.heads:
        assert 0.4 < head.source_accuracy < 1 and 0.4 < head.target_accuracy < 1
        assert 0 < head.source_risk < 2 and 0 < head.target_risk < 2
    unseen, between = transfer.targets
    assert (unseen.panel, unseen.is_plausible) == ("Centrist", False)
    assert (between.panel, between.is_plausible) == (BETWEEN, True)
    assert unseen.risk == pytest.approx(transfer.heads[1].target_risk)
    # A prior outside the hull of the sources' priors gives an abduction outside theirs.
    assert unseen.abduction.off > 2 * between.abduction.off
    for row in transfer.targets:
        assert 0 < row.risk_error < 0.1
        assert set(row.placement.weights) == {"Pragmatist", "Idealist"}
        assert sum(row.placement.weights.values()) == pytest.approx(1)
    features = load_text_encoder("hashed").encode(LIBRARY.texts).astype(np.float64)
    train, fresh = draw(seed=0), draw(seed=1)
    known = train.panel < 2
    erm = ERMClassifier()
    erm.fit(features[train.scenario][known], train.y[known], train.panel[known])
    is_right = erm.predict(features[fresh.scenario]) == fresh.y
    loss = -np.log(erm.predict_proba(features[fresh.scenario])[np.arange(len(fresh.y)), fresh.y])
    found = transfer.heads[0]
    assert found.source_accuracy == pytest.approx(is_right[fresh.panel < 2].mean())
    assert found.target_accuracy == pytest.approx(is_right[fresh.panel == 2].mean())
    assert found.source_risk == pytest.approx(loss[fresh.panel < 2].mean(), abs=1e-6)
    assert found.target_risk == pytest.approx(loss[fresh.panel == 2].mean(), abs=1e-6)


def _leaves(document: Any, place: str = "") -> dict[str, Any]:
    """The values of a document by their place in it."""
    if isinstance(document, dict | list):
        items = document.items() if isinstance(document, dict) else enumerate(document)
        return {k: v for key, part in items for k, v in _leaves(part, f"{place}/{key}").items()}
    return {place: document}


def test_the_same_seed_gives_the_same_numbers(ran: Ran) -> None:
    again, drawn = run()
    # Sums may differ in their last digits by where arrays lie in memory.
    ours, theirs = (_leaves(json.loads(dumps(result.to_dict()))) for result in (again, ran[0]))
    assert ours.keys() == theirs.keys()
    for place, value in ours.items():
        is_number = isinstance(value, float) and isinstance(theirs[place], float)
        expected = pytest.approx(theirs[place], rel=1e-6, abs=1e-9) if is_number else theirs[place]
        assert value == expected, place
    np.testing.assert_array_equal(drawn.y, ran[1].y)


def test_another_seed_gives_others_and_angles_of_fewer_records(
    ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = 100
    monkeypatch.setattr(experiment, "FEW_RECORDS", few)
    steps: list[str] = []
    result, drawn = run(1, steps)
    assert list(result.median_angles) == [few, RECORDS]
    assert result.median_angles[RECORDS] == result.diagnosis.angles.median
    # More records begin with the fewer ones.
    drawn_few = draw_records(LIBRARY, PROBABILITIES, few, seed=1)
    features = load_text_encoder("hashed").encode(LIBRARY.texts).astype(np.float64)
    features = features[:, np.ptp(features, axis=0) > 0]
    panels = np.array(drawn_few.names)[drawn_few.panel]
    sample = Sample(features[drawn_few.scenario], drawn_few.y, panels, drawn_few.profile)
    rows, names = sample.grouped(1, "cpu")
    maps = fit_factorization(rows, choose_penalties(rows)).in_features(rows.whitening)
    expected = describe_angles(maps.abductions, names).median
    assert result.median_angles[few] == pytest.approx(expected)
    assert (drawn.y != ran[1].y).any()
    first, other = ran[0].to_dict(), result.to_dict()
    assert other["seed"] == 1 and list(other["median_angles"]) == ["100", "300"]
    for part in ("diagnosis", "new_scenarios", "transfer"):
        assert first[part] != other[part]
    for part in ("labels", "scenarios", "scenarios_sha256", "encoder", "records"):
        assert first[part] == other[part]
    assert steps[0] == "embedding 40 scenarios with hashed"
    assert "comparing abductions of 100 records a panel" in steps
    assert "fitting ERM and CRO without the Centrist panel" in steps


def made_up(transfer: Transfer, *rows: TargetRow) -> Transfer:
    """With the bounds 0.5, 0.7 and 0.9, and 21 profiles met."""
    return replace(
        transfer,
        certificate=replace(transfer.certificate, risk=0.5),
        audit=replace(transfer.audit, worst_case=0.7, any_prior=0.9, n_groups=21),
        targets=rows,
    )


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
    transfer: Transfer, risk: float, words: tuple[str, str, str]
) -> None:
    row = replace(transfer.targets[0], panel="Elsewhere", risk=risk, risk_error=0.0123)
    (sentence,) = made_up(transfer, row).sentences()
    assert sentence == (
        "Elsewhere: outside the hull of the sources' log priors; CRO's true risk there, "
        f"{risk:.3f} ± 0.012 nats, is {words[0]} that of the certificate (hull of heads), 0.500; "
        f"{words[1]} that of the worst abduction (U observed), 0.700; {words[2]} that of any mix "
        "of the 21 profiles met, 0.900."
    )


def test_each_panel_has_its_sentence_which_agrees_with_the_numbers(transfer: Transfer) -> None:
    inside = replace(transfer.targets[0], panel="Here", risk=0.6, is_plausible=True)
    first, second = made_up(transfer, inside, transfer.targets[1]).sentences()
    assert first.startswith("Here: inside the hull of the sources' log priors;")
    assert second.startswith(f"{BETWEEN}: ")
    audit = transfer.audit
    bounds = transfer.certificate.risk, audit.worst_case, audit.any_prior
    for row, sentence in zip(transfer.targets, transfer.sentences(), strict=True):
        said = re.findall("(under|OVER) that of", sentence)
        assert said == ["under" if row.risk <= bound else "OVER" for bound in bounds]
        assert all(f"{bound:.3f}" in sentence for bound in bounds)


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
