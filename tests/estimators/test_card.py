"""Cards tell of the head, parse as YAML and Markdown, and run what they tell people to run."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from sklearn.base import clone

from regraft import (
    CROClassifier,
    EIILClassifier,
    ERMClassifier,
    GroupDROClassifier,
    IRMClassifier,
    JTTClassifier,
    LiteralCROClassifier,
    VRExClassifier,
    XRMClassifier,
    __version__,
    adapt,
    save,
)
from regraft.core.group_certificate import GroupCertificate
from regraft.estimators.abduction import summarize_factor
from regraft.estimators.card import describe_reference, escape, model_card, quote
from regraft.estimators.certificate_terms import explain_certificate
from regraft.estimators.evidence_tables import evidence_table
from regraft.estimators.linear import LinearHead
from tests.helpers.problems import Problem, make_problem

pytestmark = pytest.mark.filterwarnings("ignore:a radius of")
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
HOSTILE = (
    "<script>alert(1)</script>",
    "| a",
    "x\n---\nlicense: mit",
    "---",
    ": x",
    "*_a_* [b](c) `d` ~~e~~ \\",
    "\"quoted\" '' # no comment",
    "&lt;b&gt; \x00\x1b\u2028\ufeff\udc80 😀",
    "art_painting",
)
SECTIONS = ("Sources", "Limits", "How to load it", "Settings", "Licence", "Versions")
CERTIFIED = ("Certificate", "Price of robustness")


@pytest.fixture(scope="module")
def model(problem: Problem) -> CROClassifier:
    return CROClassifier("hull", radius=2.0).fit(*problem.data)


@pytest.fixture(scope="module")
def latent(problem: Problem) -> CROClassifier:
    return CROClassifier().fit(*problem.data)


def header(card: str) -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    start, text, _ = card.split("---\n", 2)
    assert start == ""
    fields: dict[str, Any] = yaml.safe_load(text)
    return fields


def body(card: str) -> list[Token]:
    return MARKDOWN.parse(card.split("\n---\n", 1)[1])


def headings(card: str) -> list[str]:
    tokens = body(card)
    return [tokens[i + 1].content for i, t in enumerate(tokens) if t.type == "heading_open"]


def words(token: Token) -> str:
    """The text of a line as a reader sees it; fails on anything but text."""
    children = token.children or []
    assert {child.type for child in children} <= {"text", "text_special"}, token.content
    return "".join(child.content for child in children)


def first_table(card: str) -> list[list[str]]:
    """The cells of the first table, which is that of the sources."""
    rows: list[list[str]] = []
    tokens = body(card)
    for before, token in pairwise(tokens):
        if before.type == "tr_open":
            rows.append([])
        if before.type in ("td_open", "th_open"):
            rows[-1].append(words(token))
        if before.type == "table_close":
            break
    return rows


def renamed(model: CROClassifier, names: list[str]) -> CROClassifier:
    """The head as if its classes, features and sources had these names."""
    other = clone(model)
    other.__dict__ |= model.__dict__
    other.classes_, other.feature_names_in_ = np.array(names, object), np.array(names, object)
    other.domains_ = np.array(names, object)
    rows, c = tuple(range(1, len(names) + 1)), model.certificate_
    own, pooled = (
        tuple(replace(each[0], name=name) for name in names)
        for each in (c.sources, c.pooled_sources)
    )
    if isinstance(c, GroupCertificate):
        found = {**c.abduction, "domains": names, "shares": [[0.25, 0.75]] * len(names)}
        other.certificate_ = replace(
            c, sources=own, pooled_sources=pooled, source_rows=rows, abduction=found
        )
    else:
        weights = dict(zip(names, np.linspace(-1, 2, len(names)).tolist(), strict=True))
        far = dict.fromkeys(names, 0.5)
        other.certificate_ = replace(
            c,
            sources=own,
            pooled_sources=pooled,
            distances=far,
            worst_target=weights,
            source_rows=rows,
        )
    return other


def test_the_card_says_how_erm_differs_from_logistic_regression(problem: Problem) -> None:
    card = model_card(CROClassifier().fit(*problem.data))
    assert "each source weighs the same" in card and "not that of scikit-learn's" in card


def test_the_header_has_the_fields_of_the_hub(model: CROClassifier) -> None:
    fields = header(model_card(model))
    assert set(fields) == {"library_name", "pipeline_tag", "tags", "model-index"}
    assert fields["library_name"] == "regraft"
    assert fields["pipeline_tag"] == "tabular-classification"
    assert {"domain-generalization", "distribution-shift", "robustness"} < set(fields["tags"])
    (entry,) = fields["model-index"]
    (result,) = entry["results"]
    assert result["dataset"]["name"] == "Sources: source 0, source 1"
    numbers = {metric["type"]: metric["value"] for metric in result["metrics"]}
    c = model.certificate_
    assert numbers == {
        "worst_case_accuracy": pytest.approx(c.accuracy_bound, abs=1e-4),
        "worst_case_risk": pytest.approx(c.risk_bound, abs=1e-4),
        "accuracy": pytest.approx(c.source_accuracy, abs=1e-4),
    }
    names = [metric["name"] for metric in result["metrics"]]
    assert [name.startswith("Certified") for name in names] == [True, True, False]
    assert names[-1].endswith("measured on held-out rows")


def test_the_hub_reads_it(model: CROClassifier) -> None:
    hub = pytest.importorskip("huggingface_hub")
    data = hub.ModelCard(model_card(model)).data
    assert data.library_name == "regraft" and data.license is None
    assert [result.metric_type for result in data.eval_results] == [
        "worst_case_accuracy", "worst_case_risk", "accuracy"
    ]  # fmt: skip


def test_the_body_tells_the_certificate_and_its_price(model: CROClassifier) -> None:
    card, c = model_card(model), model.certificate_
    assert set(headings(card)) >= {*SECTIONS, *CERTIFIED, "Radius: 2 nats"}
    for paragraph in c.paragraphs():
        assert paragraph in card
    for term in explain_certificate(c):
        assert f"| {term.name} | {term.value} | {term.meaning} |" in card
        assert term.meaning.endswith(".") and "\n" not in term.meaning
    prices = f"{c.source_accuracy:.1%} | {c.pooled_source_accuracy:.1%}"
    assert f"| accuracy on the sources, measured | {prices} |" in card
    prices = f"{c.risk_bound:.3f} nats | {c.pooled_risk_bound:.3f} nats"
    where = "every plausible domain within 2 nats and each source"
    assert f"| certified risk in {where}, at most | {prices} |" in card
    far = [f"{distance:.2f}" for distance in c.distances.values()]
    weights = [f"{weight:+.2f}" for weight in c.worst_target.values()]
    expected = [["300", *each] for each in zip(far, weights, strict=True)]
    assert [row[1:] for row in first_table(card)[1:]] == expected
    for each in (*c.targets, *c.kept):
        assert f"{each.accuracy:.1%} (≥ {each.accuracy_bound:.1%})" in card
    for limit in ("its inputs those of the sources", "noisier than any tilt", "is an assumption"):
        assert limit in card
    assert "`license: mit`" in card and f"Regraft {__version__}" in card


def test_the_card_of_hidden_groups_has_held_out_numbers_only(latent: CROClassifier) -> None:
    card, c = model_card(latent), latent.certificate_
    assert isinstance(c, GroupCertificate) and c.n_groups == 2
    assert "`n_groups`" not in model_card(latent)  # which is for the family factorized alone
    evidence = "Measured on held-out rows"
    assert set(headings(card)) >= {*SECTIONS, *CERTIFIED, "Hidden factor", evidence}
    for paragraph in (*c.paragraphs(), summarize_factor(c.abduction)):
        assert paragraph in card
    for term in explain_certificate(c):
        assert f"| {term.name} | {term.value} | {term.meaning} |" in card
    shares = [[f"{100 * share:.1f}%" for share in row] for row in c.abduction["shares"]]
    assert [row[2:] for row in first_table(card)[1:]] == shares
    for each, erm in zip(c.sources, c.pooled_sources, strict=True):
        cells = (f"{e.accuracy:.1%} (≥ {e.accuracy_bound:.1%})" for e in (each, erm))
        assert f"| {each.name} | 300 | {' | '.join(cells)} |" in card
    assert f"| {c.source_accuracy:.1%} | {c.pooled_source_accuracy:.1%} |" in card
    assert "fitted on all rows" in card and "rows fitted on" not in card and "radius is" not in card
    (result,) = header(card)["model-index"][0]["results"]
    assert result["dataset"]["split"] == "held out"
    assert {metric["type"]: metric["value"] for metric in result["metrics"]} == {
        "worst_case_accuracy": pytest.approx(c.accuracy_bound, abs=1e-4),
        "worst_case_risk": pytest.approx(c.risk_bound, abs=1e-4),
        "accuracy": pytest.approx(c.source_accuracy, abs=1e-4),
    }


def test_a_card_without_a_hidden_factor_says_so() -> None:
    p = make_problem(n=60, sources=1)
    with pytest.warns(UserWarning, match="one domain"):
        model = CROClassifier().fit(p.X, p.y)
    card = model_card(model)
    assert "No hidden factor was found" in card and "All rows are of one source" in card
    assert "The head is ERM's: no hidden factor was found." in card
    assert "| pooled sources |" in card and "mixture of the groups" not in card
    names = {term.name for term in explain_certificate(model.certificate_)}
    assert names.isdisjoint({"advantage over ERM", "rounds", "gain"})


def test_a_source_named_like_a_group_is_told_apart(latent: CROClassifier) -> None:
    table = evidence_table(renamed(latent, ["group 0", "b"]).certificate_)
    assert [row[0] for row in table.rows] == ["group 0", "group 1", "group 0 (source)", "b"]


def test_every_term_is_told_where_it_means_something(model: CROClassifier) -> None:
    names = [term.name for term in explain_certificate(model.certificate_)]
    assert len(names) == len(set(names)) == 24
    regret = replace(model.certificate_, objective="regret", regret=0.1)
    assert {term.name for term in explain_certificate(regret)} - set(names) == {"certified regret"}
    # With other surrogates there is no guard.
    other = explain_certificate(
        replace(model.certificate_, surrogate="relabelled", advantage=None, advantage_error=None)
    )
    assert set(names) - {term.name for term in other} == {"advantage over ERM"}


@pytest.mark.parametrize(
    "head",
    [
        *(ERMClassifier(), GroupDROClassifier(), IRMClassifier(), VRExClassifier(penalty=2.0)),
        *(JTTClassifier(), EIILClassifier(), XRMClassifier()),
    ],
    ids=lambda head: type(head).__name__,
)
def test_heads_without_a_certificate_claim_nothing(problem: Problem, head: LinearHead) -> None:
    card = model_card(head.fit(*problem.data))
    assert headings(card)[1:] == list(SECTIONS)
    assert "no certificate" in card and "nats" not in card
    assert "model-index" not in header(card)
    assert first_table(card) == [["source"], ["source 0"], ["source 1"]]


def test_the_card_of_the_free_adversary_says_what_differs(problem: Problem) -> None:
    quick = {"cro_rank": 2, "cro_adv_epochs": 2, "cro_adv_batch": 32, "cro_gap_eps": 0.05}
    head = LiteralCROClassifier(**quick).fit(*problem.data)
    card = model_card(head)
    assert set(headings(card)) >= {*SECTIONS, *CERTIFIED, "No radius"}
    assert (
        "the worst domain that the search found" in card
        and "The radius is an assumption" not in card
    )
    assert "model-index" not in header(card)
    names = {term.name for term in explain_certificate(head.certificate_)}
    assert "statistical term" not in names and "standardized features" in card
    c = head.certificate_
    assert c.pooled_source_accuracy > 0.7
    assert first_table(card) == [["source", "rows"], ["source 0", "300"], ["source 1", "300"]]


def test_one_source_tells_nothing_about_others() -> None:
    p = make_problem(n=60, sources=1)
    with pytest.warns(UserWarning, match="one domain"):
        model = CROClassifier("hull").fit(p.X, p.y)
    card = model_card(model)
    assert "the only plausible domain is the sources themselves" in card
    assert (
        "one plausible domain, in which the ordinary model is the best" in card
        and "1 source domain, listed" in card
    )


@pytest.mark.parametrize("family", ["model", "latent"])
@pytest.mark.parametrize("labels", [0, 12, 60])
def test_the_card_of_an_adapted_head_is_about_one_domain(
    problem: Problem, family: str, labels: int, request: pytest.FixtureRequest
) -> None:
    if family == "model" and not labels:
        pytest.skip("the hull learns from labels alone")
    X, y = problem.X[:120] + 0.1, problem.y[:120].astype(object)
    y[labels:] = None
    adapted = adapt(request.getfixturevalue(family), X, y)
    card, c = model_card(adapted), adapted.certificate_
    assert headings(card)[1:] == [SECTIONS[0], "Place of the domain", "Certificate", *SECTIONS[1:]]
    assert all(paragraph in card for paragraph in c.paragraphs())
    assert "coef_" not in card and "`group_heads_[u] · [x, 1]`" in card
    assert ("by `correction_`" in card) == (c.kind == "corrected")
    assert "certificate_.summary()" in card and "reference.safetensors" not in card
    assert ("| labels of the domain | 60 |" in card) == (labels == 60)
    assert [f"| {name} | " in card for name in c.weights] == [True] * len(c.weights)


def test_places_in_the_hull_are_named_as_they_are(model: CROClassifier, problem: Problem) -> None:
    adapted = adapt(model, problem.X[:40] + 0.1, problem.y[:40])
    weights = dict.fromkeys(HOSTILE, 0.5)
    adapted.certificate_ = replace(adapted.certificate_, weights=weights)
    adapted.domains_ = np.array(HOSTILE, object)
    card = model_card(adapted)
    assert [len(row) for row in first_table(card)] == [1] * (len(HOSTILE) + 1)
    assert card.count("&lt;script&gt;alert(1)") == 2 and "<script>" not in card


def test_rows_that_are_saved_with_a_model_are_told(latent: CROClassifier) -> None:
    told = describe_reference(latent)
    assert "features and labels of 600 rows of the sources (never more than 4,000)" in told
    assert "may be deleted" in told and told in model_card(latent)
    without = renamed(latent, [str(name) for name in latent.domains_])
    del without.reference_
    assert describe_reference(without) == ""
    assert "reference.safetensors" not in model_card(without)


@pytest.mark.parametrize("family", ["model", "latent"])
def test_names_from_data_stay_names(family: str, request: pytest.FixtureRequest) -> None:
    names, model = list(HOSTILE), request.getfixturevalue(family)
    card = model_card(renamed(model, names))
    card.encode()
    fields = header(card)
    assert "license" not in fields and fields["library_name"] == "regraft"
    dataset = fields["model-index"][0]["results"][0]["dataset"]["name"]
    assert dataset.startswith("Sources: <script>alert(1)</script>, | a, x --- license: mit, ---, :")
    assert "😀" in dataset
    assert headings(card)[1:] == headings(model_card(model))[1:]
    rows = first_table(card)
    assert [len(row) for row in rows] == [4] * (len(names) + 1)
    assert [row[0] for row in rows[1:3]] == names[:2]
    assert [row[0] for row in rows[3:-2]] == ["x --- license: mit", *names[3:-2]]
    assert "art_painting" in card
    for token in body(card):
        assert token.type != "html_block"
        assert all(child.type != "html_inline" for child in token.children or ())
    assert "<script" not in card.split("\n---\n", 1)[1]


@given(st.text(st.characters(exclude_categories=())))
def test_any_name_reads_as_itself_on_one_line(name: str) -> None:
    yaml = pytest.importorskip("yaml")
    seen = yaml.safe_load(f"a: {quote(name)}\nb: 1")
    assert seen["b"] == 1 and len(seen["a"].splitlines()) <= 1
    assert " ".join(name.split()) == seen["a"] or "\N{REPLACEMENT CHARACTER}" in seen["a"]
    rows = first_table(f"---\n---\n| a | b |\n|---|---|\n| {escape(name)} | end |")
    assert rows == [["a", "b"], [seen["a"], "end"]]


def test_long_lists_are_cut(model: CROClassifier) -> None:
    card = model_card(renamed(model, [f"n{i}" for i in range(25)]))
    assert first_table(card)[-1] == ["and 5 more", "", "", ""]
    assert "25 classes: n0, n1," in card and "n19 and 5 more" in card and "n20" not in card


def test_the_python_block_runs(
    tmp_path: Path,
    model: CROClassifier,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    save(model, tmp_path / "m")
    monkeypatch.chdir(tmp_path / "m")
    (code,) = re.findall(r"```python\n(.*?)```", Path("README.md").read_text("utf-8"), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert model.certificate_.paragraphs()[0] in printed
    assert str(model.predict(np.zeros((2, model.n_features_in_)))) in printed
