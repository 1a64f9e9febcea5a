"""The moral experiment from end to end on few records, and what it says of made-up ones."""

import json
from functools import partial

import numpy as np
import pytest

from regraft.encoders import load_text_encoder
from regraft.estimators.baselines import ERMClassifier
from regraft.moral import experiment
from regraft.moral.experiment import MoralResult, run_moral
from regraft.moral.library import make_library
from regraft.moral.process import DrawnRecords, action2_shares, draw_records
from regraft.moral.responses import MECHANISM, response_probabilities
from regraft.moral.transfer import Sample, Transfer
from regraft.moral.values import PROFILES, profile_name
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
ROBUST = ["CRO, hull", "CRO, latent"]


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
    for name in ROBUST:
        audit = document["transfer"]["bounded"][name]["audit"]
        assert audit["any_prior"] == result.transfer.bounded[name].audit.any_prior
    assert document["action2_shares"] == action2_shares(LIBRARY, PROBABILITIES)
    assert [each["panel"] for each in document["examples"]] == list(drawn.names)
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
    hull, latent = (transfer.bounded[name] for name in ROBUST)
    assert transfer.radius == hull.certificate.radius == hull.audit.radius > 0
    assert latent.certificate.family == "latent" and list(transfer.bounded) == ROBUST
    assert [head.name for head in transfer.heads] == ["ERM", *ROBUST] == list(transfer.curves)
    names = {"Pragmatist", "Idealist"}
    assert set(hull.audit.weights) == set(hull.certificate.worst_target) == names
    known = {profile_name(profile) for profile in PROFILES}
    fresh = draw(seed=1)
    for bounded in (hull, latent):
        assert bounded.audit.worst_group in known
        assert 0 < bounded.audit.worst_case < bounded.audit.any_prior
        assert bounded.audit.n_groups == len(np.unique(fresh.profile[fresh.panel < 2]))
    for head in transfer.heads:
        assert 0.4 < head.source_accuracy < 1 and 0.4 < head.target_accuracy < 1
        assert 0 < head.source_risk < 2 and 0 < head.target_risk < 2
    unseen, between = transfer.targets
    assert (unseen.panel, unseen.is_plausible) == ("Centrist", False)
    assert (between.panel, between.is_plausible) == (BETWEEN, True)
    for head in transfer.heads[1:]:
        assert unseen.risks[head.name].risk == pytest.approx(head.target_risk)
    # A prior outside the hull of the sources' priors gives an abduction outside theirs.
    assert unseen.abduction.off > 2 * between.abduction.off
    for row in transfer.targets:
        assert list(row.risks) == ROBUST
        assert all(0 < found.error < 0.1 for found in row.risks.values())
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
