"""The price of robustness over the prior shift, on rows that the heads have not seen."""

import json
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from regraft import CROClassifier, frontier, make_confounded_domains
from regraft.core import latent_game
from regraft.core.abduction import Groups, find_groups, rows_of_sources
from regraft.core.domains import check_domains
from regraft.core.heads import fit_source_heads
from regraft.core.latent_game import play_latent
from regraft.estimators.frontier import Frontier, _JudgedHead
from tests.helpers.errors import refused
from tests.helpers.problems import Problem, make_problem


@pytest.fixture(scope="module")
def confounded() -> Problem:
    data = make_confounded_domains(600, strengths=(0.9, 0.7), n_features=6, random_state=1)
    return Problem(data.X, data.y, data.sample_domain)


@pytest.fixture(scope="module")
def price(confounded: Problem) -> Frontier:
    return frontier(*confounded.data, prior_shifts=(math.inf, 0, 1))


def test_a_larger_shift_costs_on_the_sources_and_buys_in_the_worst_mixture(
    price: Frontier,
) -> None:
    assert [point.label for point in price.points] == ["0", "1", "any"]
    assert price.points[0].source_accuracy > price.points[-1].source_accuracy
    assert price.points[0].worst_case_risk > price.points[-1].worst_case_risk
    assert price.points[0].worst_case_accuracy < price.points[-1].worst_case_accuracy


def test_every_row_is_scored_once_by_a_head_that_has_not_seen_it(
    confounded: Problem, price: Frontier
) -> None:
    sources = fit_source_heads(check_domains(*confounded.data))
    groups = find_groups(rows_of_sources(sources))
    answers = play_latent(sources, groups).answers
    fold, y = sources.held_out.fold, sources.y
    loss, error = torch.zeros(len(y)).double(), torch.zeros(len(y)).double()
    for f, answer in enumerate(answers):
        scores = sources.Z @ answer.head.T
        loss[fold == f] = torch.nn.functional.cross_entropy(scores, y, reduction="none")[fold == f]
        error[fold == f] = (scores.argmax(dim=1) != y).double()[fold == f]
    weights = groups.posterior.T * sources.weight
    weights = weights / weights.sum(dim=1, keepdim=True)
    mixtures = [(1 - share) * weights[0] + share * weights[1] for share in np.linspace(0, 1, 9)]
    last = price.points[-1]
    assert last.source_accuracy == pytest.approx(1 - float(sources.weight @ error))
    assert last.worst_case_risk == pytest.approx(max(float(w @ loss) for w in mixtures))
    assert last.worst_case_accuracy == pytest.approx(1 - max(float(w @ error) for w in mixtures))
    assert last.source_rows == pytest.approx(len(y))


def test_its_last_head_is_the_one_that_a_fit_certifies(
    confounded: Problem, price: Frontier
) -> None:
    certificate = CROClassifier().fit(*confounded.data).certificate_
    last = price.points[-1]
    assert last.worst_case_accuracy == pytest.approx(min(g.accuracy for g in certificate.groups))
    assert last.worst_case_risk == pytest.approx(max(g.risk for g in certificate.groups))


def test_its_bound_is_the_one_that_a_fit_certifies(confounded: Problem, price: Frontier) -> None:
    certificate = CROClassifier().fit(*confounded.data).certificate_
    first, *_, last = price.points
    assert last.worst_case_bound == pytest.approx(certificate.accuracy_bound)
    assert first.worst_case_bound == pytest.approx(certificate.pooled_accuracy_bound)
    assert last.worst_case_bound < last.worst_case.low
    assert price.table().texts()[-1][3] == f"{certificate.accuracy_bound:.1%}"
    assert "take the group of every row as known" in price.summary()
    nothing = replace(price, points=(replace(last, worst_case_bound=0.0),))
    assert nothing.table().texts()[0][3] == "nothing useful"


@pytest.mark.parametrize("reason", [latent_game.NOT_WORTH, latent_game.NOT_MIXTURES])
def test_the_robust_head_is_measured_where_the_guard_keeps_erms(
    confounded: Problem, price: Frontier, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    monkeypatch.setattr(latent_game, "find_doubt", lambda *_: reason)
    guarded = frontier(*confounded.data, prior_shifts=(math.inf, 0, 1))
    before, after = price.points[-1], guarded.points[-1]
    assert after == replace(before, reason=reason)  # though a fit returns another head
    assert guarded.points[0].source_accuracy > after.source_accuracy
    assert guarded.points[0].worst_case_accuracy < after.worst_case_accuracy
    assert "Robustness costs nothing" not in guarded.summary()
    assert f"A fit returns the ordinary one, because {reason}" in guarded.summary()
    assert (f"{after.cost:.3f} nats of risk" in guarded.summary()) == (
        reason == latent_game.NOT_WORTH
    )
    assert [row[-1] for row in guarded.table().texts()] == ["ordinary"] * 3
    assert price.table().texts()[-1][-1] == "robust" and "A fit returns" not in price.summary()


def test_without_a_game_all_heads_are_erms(
    confounded: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Groups, "overlap", False)
    found = frontier(*confounded.data, prior_shifts=(0, math.inf))
    assert found.points[0].source_accuracy == found.points[1].source_accuracy
    assert f"All of these are the ordinary model, because {latent_game.NO_OVERLAP}." in (
        found.summary()
    )


def test_it_survives_json_and_old_files_are_the_hulls(price: Frontier) -> None:
    document = json.loads(json.dumps(price.to_dict(), allow_nan=False))
    assert Frontier.from_dict(document) == price
    point = {"radius": 2.0, "source_accuracy": 0.9, "worst_case_accuracy": 0.5}
    old = Frontier.from_dict({"points": [{**point, "worst_case_risk": 0.7}], "audit_radius": 8.0})
    assert (old.family, old.points[0].label) == ("hull", "2")
    assert (old.trained, old.scope) == ("training radius (nats)", "worst domain within 8 nats")


def test_without_a_hidden_factor_there_is_one_head_which_is_erms() -> None:
    p = make_problem(n=300, sources=1)
    domain = np.tile([0, 1], 150)
    found = frontier(p.X, p.y, domain)
    assert not found.has_factor and len(found.points) == 1
    assert found.summary().startswith("No hidden factor was found")
    sources = fit_source_heads(check_domains(p.X, p.y, domain))
    held_out = sources.held_out
    scores = torch.einsum("fck,nk->fnc", held_out.pooled, sources.Z)
    correct = (scores[held_out.fold, torch.arange(300)].argmax(dim=1) == sources.y).double()
    expected = np.mean([float(correct[rows].mean()) for rows in sources.slices])
    assert found.points[0].source_accuracy == pytest.approx(expected)


def test_the_sentence_says_how_far_the_mix_may_move(price: Frontier) -> None:
    assert price.trained == "how far the mix of groups may move (nats)"
    assert "from 0 nats to any distance" in price.summary()
    assert "accuracy on the sources goes from" in price.summary()
    assert "mean over the sources; in brackets, 95 % intervals." in price.summary()
    first, *_, last = price.points
    for row, point in zip(price.table().texts(), price.points, strict=True):
        half = (point.worst_case.high - point.worst_case.low) / 2
        assert row[2] == f"{point.worst_case_accuracy:.1%} ± {half:.1%}"
    assert first.source_change_error == 0 and last.source_change_error > 0


def test_what_chance_explains_is_no_change(price: Frontier) -> None:
    first, *_, last = price.points
    assert re.match(r"Robustness costs [\d.]+ points in .*, and buys [\d.]+ points", price.price())
    same = replace(price, points=(first, first)).price()
    assert same.startswith("Robustness costs nothing in domains like the sources, and buys nothing")
    equal = replace(price, points=(first, replace(first, prior_shift=None)))
    assert equal.summary().count("does not change: ") == 2 and "from 0" in equal.summary()
    unsure = replace(price, points=(first, replace(last, source_change_error=0.5)))
    assert "on the sources does not change by more than chance explains" in unsure.summary()
    assert "worst mixture of the groups it goes from" in unsure.summary()


def test_the_error_of_a_change_is_that_of_paired_rows() -> None:
    weight, rng = torch.full((400,), 1 / 400, dtype=torch.float64), np.random.default_rng(0)
    errors = [torch.from_numpy(rng.integers(0, 2, 400).astype(float)) for _ in range(2)]
    first, other = (_JudgedHead(e, weight, weight, float(weight @ e)) for e in errors)
    point = other.point(first, radius=1.0, worst_case_risk=0.7)
    expected = float((errors[0] - errors[1]).std(correction=0)) / 20
    assert point.source_change_error == pytest.approx(expected)
    assert point.worst_case_change_error == pytest.approx(expected)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"radii": (1.0,)}, 'radii is a setting of family="hull", and the family is "latent"'),
        ({"rank": 1}, "rank is a setting of"),
        ({"family": "hull", "prior_shifts": (1.0,)}, "prior_shifts is a setting of"),
        ({"family": "hull", "class_groups": True}, "class_groups is a setting of"),
        ({"family": "free"}, "family \\(--family\\) is 'free'"),
        ({"prior_shifts": ()}, "prior_shifts is empty"),
        ({"prior_shifts": (-1.0,)}, "prior_shift is -1"),
    ],
)
def test_what_is_refused(problem: Problem, settings: dict[str, Any], sentence: str) -> None:
    with refused(sentence):
        frontier(*problem.data, **settings)
