"""CROClassifier's family ``factorized``: the head, the certificate, the witness, the audit."""

import json
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import softmax

from regraft import CROClassifier, HeadCertificate, audit, frontier, load, save
from regraft.core.domains import check_domains
from regraft.core.heads import fit_source_heads
from regraft.core.hull import attack
from regraft.core.newton import log_probabilities, losses
from regraft.premises.factorized_targets import fit_factorized_targets
from tests.helpers.errors import refused
from tests.helpers.factorized_domains import draw_disagreeing_groups
from tests.helpers.problems import Problem, make_problem

SHARES = (0.95, 0.8, 0.6)


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@cache
def fitted() -> tuple[Problem, CROClassifier]:
    problem = draw_disagreeing_groups(0, SHARES, n=600, d=4)
    return problem, CROClassifier("factorized").fit(*problem.data)


def certificate_of(model: CROClassifier) -> HeadCertificate:
    assert isinstance(model.certificate_, HeadCertificate)
    return model.certificate_


def accuracy(head: np.ndarray, problem: Problem) -> float:
    guess = (problem.X @ head[:, :-1].T + head[:, -1]).argmax(axis=1)
    return float((guess == problem.y).mean())


def test_it_beats_erm_where_the_sources_rare_group_prevails() -> None:
    _, model = fitted()
    far = draw_disagreeing_groups(1, (0.1,), n=4000, d=4)
    head = model._head
    assert not certificate_of(model).reason
    assert accuracy(head, far) > accuracy(model.pooled_head_, far) + 0.02


@pytest.mark.parametrize("seed", range(2))
def test_the_certificate_covers_new_rows_of_its_targets(seed: int) -> None:
    problem = draw_disagreeing_groups(10 + seed, (0.9, 0.6), n=250, d=3)
    domains = check_domains(*problem.data)
    sources = fit_source_heads(domains)
    model = CROClassifier("factorized")
    model.fit_sources(domains, sources)
    found = certificate_of(model)
    new = check_domains(*draw_disagreeing_groups(20 + seed, (0.9, 0.6), n=5000, d=3).data)
    Z = sources.whitening(new.X)
    rows = fit_factorized_targets(sources, 2).prepare(Z, new.y, new.weight, new.domain)
    head = torch.from_numpy(model._head)
    log_p = log_probabilities(torch.cat([new.X, torch.ones(len(Z), 1)], dim=1).double(), head)
    error = (log_p.argmax(dim=1) != new.y).double()
    assert found.radius is not None
    assert attack(rows, losses(log_p, new.y), found.radius).value <= found.risk_bound
    assert 1 - attack(rows, error, found.radius).value >= found.accuracy_bound


def test_equal_sources_leave_erms_head() -> None:
    model = CROClassifier("factorized").fit(
        *draw_disagreeing_groups(2, (0.7, 0.7), n=250, d=3).data
    )
    assert certificate_of(model).reason
    head = model._head
    assert np.array_equal(head, model.pooled_head_)


def test_the_certificate_says_what_it_is_about() -> None:
    _, model = fitted()
    found = certificate_of(model)
    assert found.family == "factorized"
    assert "abductions" in found.scope() and "abduction" in found.limits()
    assert HeadCertificate.from_dict(json.loads(found.to_json())) == found
    assert sum(found.worst_target.values()) == pytest.approx(1)
    assert all(each.risk <= found.risk_bound for each in found.sources)
    assert found.fit_residual < 1e-8 and found.biorthogonality_residual < 1e-8
    farthest = max(found.distances.values())
    assert found.radius == pytest.approx(2**0.5 * farthest)  # three sources


def test_witness_carries_abductions_over_and_keeps_the_deduction() -> None:
    problem, model = fitted()
    witness = model.witness({"0": -1.0, "1": 1.0, "2": 1.0})
    rows = torch.from_numpy(np.column_stack([problem.X, np.ones(len(problem.y))]))[:50]
    for s, source in enumerate(witness.sources):
        moved = witness.transplant(s)(rows)
        assert torch.allclose(moved @ witness.target, rows @ source, atol=1e-6)
        assert torch.allclose(moved @ witness.deduction, rows @ witness.deduction, atol=1e-6)
        assert torch.allclose(moved[:, -1], rows[:, -1])
    odds = torch.from_numpy(np.diff(model.abductions_, axis=1)[:, 0])
    assert torch.allclose(witness.sources[..., 0], odds, atol=1e-6)


def test_it_is_saved(tmp_path: Path) -> None:
    problem, model = fitted()
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert isinstance(again, CROClassifier)
    assert np.array_equal(again.predict_proba(problem.X), model.predict_proba(problem.X))
    assert again.certificate_ == model.certificate_
    assert np.array_equal(again.deduction_, model.deduction_)
    ours, theirs = (each.predict_interval(problem.X[:9]).lower for each in (model, again))
    assert np.array_equal(ours, theirs)
    assert torch.equal(again.witness().basis, model.witness().basis)


def test_audits_grow_with_the_radius() -> None:
    _, model = fitted()
    new, head = draw_disagreeing_groups(3, (0.95, 0.6), n=400, d=4), model.pooled_head_
    p = softmax(new.X @ head[:, :-1].T + head[:, -1], axis=1)
    points = audit(p, *new.data, radii=(0, 1, 4), family="factorized").points
    assert points[0].risk <= points[1].risk < points[2].risk
    assert points[0].accuracy >= points[1].accuracy >= points[2].accuracy


def test_intervals_hold_the_labels_of_every_source() -> None:
    problem, model = fitted()
    found = model.predict_interval(problem.X[:100])
    rows = np.column_stack([problem.X[:100], np.ones(100)])
    answers = softmax(np.einsum("nd,gcd->ngc", rows, model.deduction_), axis=2)
    for abduction in model.abductions_:
        p = np.einsum("ng,ngc->nc", softmax(rows @ abduction.T, axis=1), answers)
        assert (found.lower <= p + 1e-9).all() and (p <= found.upper + 1e-9).all()
    assert 0 < found.decided.mean() < 1


def test_frontier() -> None:
    problem = draw_disagreeing_groups(4, (0.9, 0.6), n=450, d=3)
    found = frontier(*problem.data, (0, 1), family="factorized")
    assert found.family == "factorized" and found.trained == "training radius (nats)"
    assert [point.radius for point in found.points] == [0, 1]


def test_settings_of_other_families_are_refused() -> None:
    data = make_problem(n=30).data
    with refused('rank is a setting of family="hull", and the family is "factorized"'):
        CROClassifier("factorized", rank=1).fit(*data)
    with refused('n_groups is a setting of family="factorized", and the family is "hull"'):
        CROClassifier("hull", n_groups=3).fit(*data)
    with refused("call audit_groups instead"):
        audit(np.full((60, 2), 0.5), *data, family="latent")
