import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sklearn
import torch
from scipy.stats import ortho_group
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from regraft import CROClassifier, ERMClassifier, make_confounded_domains
from regraft.core.latent_game import NO_FACTOR
from tests.helpers.errors import refused
from tests.helpers.problems import Problem, make_problem
from tests.helpers.scikit_learn_checks import expected_failures

FAMILIES = pytest.mark.parametrize("family", ["latent", "hull"])


@parametrize_with_checks(
    [CROClassifier(), CROClassifier("hull")], expected_failed_checks=expected_failures
)
def test_scikit_learn_contract(estimator: CROClassifier, check: Callable[..., Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)


def _proba(p: Problem, **params: Any) -> np.ndarray:
    return CROClassifier(**params).fit(*p.data).predict_proba(p.X)


@FAMILIES
def test_the_order_of_rows_and_the_names_of_domains_do_not_matter(
    three_sources: Problem, family: str
) -> None:
    p, expected = three_sources, _proba(three_sources, family=family)
    order = np.random.default_rng(0).permutation(len(p.y))
    assert np.allclose(_proba(p.take(order), family=family), expected[order], atol=1e-6)
    names = {"source 0": 7, "source 1": 3, "source 2": 5}
    other = Problem(p.X, p.y, np.array([names[s] for s in p.domain]))
    assert np.allclose(_proba(other, family=family), expected, atol=1e-4)


@FAMILIES
@pytest.mark.parametrize("scale", [1e-3, 1e4])
def test_rotation_and_rescaling_do_not_matter(
    three_sources: Problem, scale: float, family: str
) -> None:
    p = three_sources
    rotation = ortho_group.rvs(p.X.shape[1], random_state=0)
    moved = Problem(scale * p.X @ rotation + 5 * scale, p.y, p.domain)
    assert np.allclose(_proba(moved, family=family), _proba(p, family=family), atol=1e-4)


@FAMILIES
@pytest.mark.parametrize("seed", range(2))
def test_order_of_names_does_not_matter(seed: int, family: str) -> None:
    """Swapped domain names, reversed classes, sources of different sizes."""
    p = make_problem(seed, n=150, classes=3, sources=3)
    kept = (p.domain != "source 1") | (np.arange(len(p.y)) % 5 != 0)
    p = p.take(kept)
    swap = {"source 0": "b", "source 1": "a", "source 2": "c"}
    swapped = Problem(p.X, p.y, np.array([swap[s] for s in p.domain]))
    expected = _proba(p, family=family)
    assert np.allclose(_proba(swapped, family=family), expected, atol=1e-4)
    backwards = Problem(p.X, 2 - p.y, p.domain)
    assert np.allclose(_proba(backwards, family=family)[:, ::-1], expected, atol=1e-4)


def test_class_names_do_not_matter(three_sources: Problem) -> None:
    p = three_sources
    words = np.array(["ant", "bee", "cat"])
    model = CROClassifier().fit(p.X, words[p.y], p.domain)
    assert model.classes_.tolist() == ["ant", "bee", "cat"]
    assert np.allclose(model.predict_proba(p.X), _proba(p), atol=1e-8)
    assert set(model.predict(p.X)) <= set(words)


@FAMILIES
def test_beats_erm_where_the_association_is_permuted(family: Any) -> None:
    data = make_confounded_domains(n_classes=3, strengths=(0.9, 0.7), random_state=0)
    robust = CROClassifier(family).fit(data.X, data.y, data.sample_domain)
    plain = ERMClassifier().fit(data.X, data.y, data.sample_domain)
    gain = robust.score(data.X_target, data.y_target) - plain.score(data.X_target, data.y_target)
    assert gain > 0.1


def test_the_default_radius_is_what_the_sources_support() -> None:
    """Where a fourth domain would lie on average if it were drawn as the three were."""
    p = make_problem(seed=1, n=90, classes=3, sources=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        c = CROClassifier("hull").fit(*p.data).certificate_
        assert c.radius == pytest.approx(np.sqrt(4 / 2) * max(c.distances.values()))
        CROClassifier("hull", radius=2.9 * c.radius).fit(*p.data)
    numbers = rf"a radius of 8 nats is {8 / c.radius:.0f} times .* \({c.radius:.2g} nats\)"
    with pytest.warns(UserWarning, match=numbers):
        CROClassifier("hull", radius=8.0, tolerance=0.1).fit(*p.data)


def test_learned_state(three_sources: Problem) -> None:
    p = three_sources
    model = CROClassifier("hull", rank=1).fit(*p.data)
    assert model.coef_.shape == (3, 6)
    assert model.source_heads_.shape == (3, 3, 7)
    assert model.pooled_head_.shape == (3, 7)
    assert model.domains_.tolist() == ["source 0", "source 1", "source 2"]
    assert model.rounds_ == model.certificate_.rounds
    assert model.certificate_.witness_rank == 1
    assert np.allclose(model.predict_proba(p.X).sum(axis=1), 1)
    assert model.decision_function(p.X).shape == (900, 3)


def test_witness_of_the_worst_and_of_a_chosen_target(three_sources: Problem) -> None:
    p = three_sources
    model = CROClassifier("hull").fit(*p.data)
    worst = model.witness()
    assert worst.fit_residual < 1e-8
    assert worst.biorthogonality_residual < 1e-8
    chosen = model.witness({"source 0": 2.0, "source 1": -0.5, "source 2": -0.5})
    assert chosen.fit_residual < 1e-8
    cut = CROClassifier("hull", rank=1).fit(*p.data)
    assert cut.witness().rank == cut.certificate_.witness_rank == 1
    with pytest.raises(ValueError, match="one weight for each"):
        model.witness({"source 0": 1.0})
    with pytest.raises(ValueError, match="sum"):
        model.witness({"source 0": 1.0, "source 1": 1.0, "source 2": 1.0})


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_witness_in_raw_features_of_any_scale(three_sources: Problem, scale: float) -> None:
    p = three_sources
    model = CROClassifier("hull").fit(scale * (p.X + 3), p.y, p.domain)
    witness = model.witness()
    assert max(witness.fit_residual, witness.biorthogonality_residual) < 1e-8
    rows = torch.from_numpy(np.column_stack([scale * (p.X + 3), np.ones(len(p.y))]))
    # The target head on transplanted rows reads what the source head reads on the rows.
    heads = torch.from_numpy(model.hull_heads_)
    weights = [model.certificate_.worst_target[f"source {s}"] for s in range(3)]
    target = torch.tensordot(heads.new_tensor(weights), heads, dims=1)
    moved = witness.transplant(0)(rows)
    assert torch.allclose(moved[:, -1], torch.ones(len(rows), dtype=torch.float64))
    assert torch.allclose(moved @ target.T, rows @ heads[0].T, atol=1e-6)


def test_a_failed_fit_leaves_the_old_model(three_sources: Problem, problem: Problem) -> None:
    p = three_sources
    model = CROClassifier("hull").fit(*p.data)
    before = model.predict(p.X)
    with pytest.raises(ValueError, match="radius"):
        model.set_params(radius=-1.0).fit(problem.X[:, :3], problem.y, problem.domain)
    assert (model.predict(p.X) == before).all()


def test_one_domain_warns_and_is_erm(problem: Problem) -> None:
    hull, latent = CROClassifier("hull"), CROClassifier()
    for model in (hull, latent):
        with pytest.warns(UserWarning, match="one domain"):
            model.fit(problem.X, problem.y)
    head = hull._head
    assert np.allclose(head, hull.pooled_head_, atol=1e-2)
    assert hull.certificate_.dimension == 0
    assert (latent._head == latent.pooled_head_).all()
    assert latent.certificate_.reason == NO_FACTOR


def test_routes_through_pipeline_search_and_cross_validation() -> None:
    p = make_problem(n=90, classes=2, sources=3)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), CROClassifier("hull"))
        routed, cv = {"sample_domain": p.domain, "groups": p.domain}, LeaveOneGroupOut()
        scores = cross_validate(pipeline, p.X, p.y, cv=cv, params=routed)["test_score"]
        search = GridSearchCV(pipeline, {"croclassifier__radius": [0.0, 2.0]}, cv=cv)
        with pytest.warns(UserWarning, match="a radius of 2 nats is"):
            search.fit(p.X, p.y, **routed)
    assert len(scores) == 3
    assert scores.min() > 0.4
    assert search.best_estimator_[-1].certificate_.dimension == 2
    assert not sklearn.get_config()["enable_metadata_routing"]


def test_warns_when_the_game_does_not_settle(three_sources: Problem) -> None:
    with pytest.warns(ConvergenceWarning, match="did not settle"):
        CROClassifier("hull", tolerance=1e-12, max_rounds=2).fit(*three_sources.data)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"family": "free"}, "family \\(--family\\) is 'free': pass latent, hull or factorized"),
        ({"radius": 4.0}, 'radius is a setting of family="hull"'),
        ({"family": "hull", "class_groups": True}, 'class_groups is a setting of family="latent"'),
        ({"prior_shift": -1.0}, "prior_shift is -1"),
        ({"family": "hull", "radius": -1.0}, "radius is -1"),
        ({"family": "hull", "radius": float("nan")}, "radius is nan"),
        ({"family": "hull", "radius": 1e300}, r"radius is 1e\+300: pass 1e\+06 nats at most"),
        ({"family": "hull", "rank": 0}, "rank is 0"),
        ({"family": "hull", "rank": 3}, "rank is 3"),
        ({"family": "hull", "objective": "loss"}, "objective is 'loss'"),
        ({"ridge": 0.0}, "ridge is 0"),
        ({"ridge": 1e-20}, "ridge is 1e-20"),
        ({"tolerance": 0.0}, "tolerance is 0"),
        ({"max_rounds": 1}, "max_rounds is 1"),
    ],
)
def test_bad_parameters(three_sources: Problem, params: dict[str, Any], words: str) -> None:
    with refused(words):
        CROClassifier(**params).fit(*three_sources.data)


def test_more_features_than_rows_still_fits() -> None:
    p = make_problem(n=15, d=60)
    model = clone(CROClassifier())
    with pytest.warns(UserWarning, match="more features"):
        model.fit(*p.data)
    assert model.score(p.X, p.y) > 0.8


def test_float32_rows_give_the_same_head(problem: Problem) -> None:
    model = CROClassifier().fit(problem.X.astype(np.float32), problem.y, problem.domain)
    assert np.allclose(model.predict_proba(problem.X), _proba(problem), atol=1e-4)


def test_a_source_of_two_rows() -> None:
    p = make_problem(n=50)
    rows = np.flatnonzero(p.domain == "source 1")
    pair = [rows[p.y[rows] == 0][0], rows[p.y[rows] == 1][0]]
    kept = np.concatenate([np.flatnonzero(p.domain == "source 0"), pair])
    model = CROClassifier().fit(*p.take(kept).data)
    assert np.isfinite(model.coef_).all()
    assert model.certificate_.converged
