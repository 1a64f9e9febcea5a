"""Sources that are no mixtures of the groups found, and what a fit answers about them."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regraft import CROClassifier, make_confounded_domains
from regraft.core.evidence import Evidence
from regraft.core.group_certificate import GroupCertificate
from regraft.estimators.card import model_card
from regraft.estimators.certificate_terms import explain_certificate
from regraft.estimators.fit_answer import answer_fit
from regraft.estimators.source_mixtures import check_sources, describe_outside


@pytest.fixture(scope="module")
def model() -> CROClassifier:
    data = make_confounded_domains(400, strengths=(0.9, 0.55), n_features=8, random_state=1)
    return CROClassifier().fit(data.X, data.y, data.sample_domain)


@pytest.fixture(scope="module")
def certificate(model: CROClassifier) -> GroupCertificate:
    assert isinstance(model.certificate_, GroupCertificate)
    return model.certificate_


def with_source(c: GroupCertificate, **measured: float) -> GroupCertificate:
    """The certificate as if something else had been measured in the last source."""
    *others, last = c.sources
    changed = replace(last, **measured)  # type: ignore[arg-type]
    return replace(c, sources=(*others, changed))


def test_sources_that_are_mixtures_have_what_their_groups_predict(
    certificate: GroupCertificate,
) -> None:
    checks = check_sources(certificate)
    assert [each.name for each in checks] == [each.name for each in certificate.sources]
    for each, shares in zip(checks, certificate.abduction["shares"], strict=True):
        accuracies = [group.accuracy for group in certificate.groups]
        expected = sum(a * b for a, b in zip(shares, accuracies, strict=True))
        assert each.predicted.value == pytest.approx(expected)
        assert each.predicted.low < expected < each.predicted.high
        assert each.is_mixture
    assert describe_outside(checks) == ""


def test_a_source_far_from_that_is_named_in_the_answer(certificate: GroupCertificate) -> None:
    worse = with_source(certificate, accuracy=0.2)
    *others, last = check_sources(worse)
    assert all(each.is_mixture for each in others) and not last.is_mixture
    answer = answer_fit(worse)
    assert answer.doubts[0].startswith(f"1 of 2 sources ({last.name}) is not a mixture")
    assert "The certificate does not speak about it" in answer.doubts[0]
    assert f"But: {answer.doubts[0]}" in answer.lines()


def test_a_measured_accuracy_is_not_called_a_bound(certificate: GroupCertificate) -> None:
    worse = with_source(certificate, accuracy=0.2)
    assert worse.worst_source.accuracy == 0.2 < worse.accuracy_bound == certificate.accuracy_bound
    answer = answer_fit(worse)
    assert answer.number == "20.0%" and "measured on rows set aside" in answer.meaning
    assert f"at least {worse.accuracy_bound:.1%}" in answer.meaning
    assert "at least 20.0%" not in " ".join((*answer.lines(), worse.summary()))
    assert f"In the source {worse.sources[-1].name}, 20.0% was measured" in worse.claim()
    assert certificate.worse_source is None
    assert answer_fit(certificate).number == f"at least {certificate.accuracy_bound:.1%}"


def test_the_card_calls_only_bounds_at_least(
    model: CROClassifier, certificate: GroupCertificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    worse = with_source(certificate, accuracy=0.2)
    monkeypatch.setattr(model, "certificate_", worse)
    card = model_card(model)
    assert "at least 20.0%" not in card and "at least | 20.0%" not in card
    assert f"value: {worse.accuracy_bound:.4f}" in card and "value: 0.2000" not in card
    assert "| accuracy in the worst source | 20.0% |" in card
    assert "or what was measured in a source" not in card


def test_nothing_is_predicted_where_groups_say_nothing(certificate: GroupCertificate) -> None:
    for changed in ({"groups": ()}, {"class_groups": True}, {"n_groups": 1}):
        assert check_sources(replace(certificate, **changed)) == ()  # type: ignore[arg-type]


@given(st.floats(0, 1), st.floats(2, 1e6))
def test_more_rows_never_turn_a_source_into_a_mixture(accuracy: float, rows: float) -> None:
    group = [
        Evidence(f"group {u}", 500.0, 1.0, 0.5, 0.6, a, a - 0.1) for u, a in enumerate((0.9, 0.4))
    ]
    found = {"shares": [[0.5, 0.5]], "share_errors": [[0.02, 0.02]]}

    def check(n: float) -> bool:
        source = Evidence("a", n, 1.0, 0.5, 0.6, accuracy, 0.0)
        given = {each.name: None for each in fields(GroupCertificate) if each.init}
        parts = {"groups": tuple(group), "sources": (source,), "abduction": found, "n_groups": 2}
        parts |= dict.fromkeys(["targets", "pooled_targets"], tuple(group))
        (each,) = check_sources(GroupCertificate(**(given | parts)))  # type: ignore[arg-type]
        return each.is_mixture

    assert check(rows) >= check(10 * rows)


def test_a_bound_of_nothing_is_no_promise(certificate: GroupCertificate) -> None:
    hopeless = tuple(replace(each, accuracy_bound=0.0) for each in certificate.targets)
    none = replace(certificate, targets=hopeless)
    answer = answer_fit(none)
    assert answer.lines()[1].startswith("Nothing useful can be certified in a new domain that")
    assert "0.0%" not in answer.lines()[1].split("Measured")[0]
    assert "nothing useful can be certified about its accuracy" in none.claim()
    assert "at least 0.0%" not in f"{answer.verdict} {none.summary()}"
    assert {t.name: t.value for t in explain_certificate(none)}["certified accuracy"] == (
        "nothing useful can be certified"
    )
    pooled = replace(certificate, pooled_targets=hopeless)
    assert "nats and nothing useful about its accuracy." in pooled.claim()
    assert "at least 0.0%" not in answer_fit(pooled).verdict


def test_the_card_does_not_certify_zero(
    model: CROClassifier, certificate: GroupCertificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    hopeless = tuple(replace(each, accuracy_bound=0.0) for each in certificate.targets)
    monkeypatch.setattr(model, "certificate_", replace(certificate, targets=hopeless))
    card = model_card(model)
    assert "at least 0.0%" not in card and "| nothing useful can be certified |" in card
