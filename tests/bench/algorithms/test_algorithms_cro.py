"""Algorithms in two phases: ERM, then a head, of CRO one that holds where sources disagree."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

from regraft import CROClassifier
from regraft.bench.algorithms import find_algorithm
from regraft.bench.datasets import open_dataset
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.worker import Assignment, perform
from regraft.estimators.group_search import EIILClassifier, JTTClassifier, XRMClassifier
from tests.helpers.small_tasks import IMAGES, TWO_PHASES, VECTORS, Batch, draw_batch, make


@pytest.mark.parametrize("name", TWO_PHASES)
def test_phase_1_is_erm_with_one_record_at_its_end(name: str) -> None:
    x, y = draw_batch(b=2, input_shape=IMAGES)
    erm, cro = make("ERM", input_shape=IMAGES), make(name, input_shape=IMAGES)
    assert cro.hparams["cro_phase1_steps"] == 500
    assert cro.schedule(5001, 100) == [499]
    assert cro.schedule(201, 100) == [200]
    for step in range(2):
        assert torch.equal(erm.update(step, x, y)["loss"], cro.update(step, x, y)["loss"])
    assert torch.equal(erm.predict(x[0]), cro.predict(x[0]))


@pytest.mark.parametrize("name", TWO_PHASES)
@pytest.mark.parametrize(
    ("dataset", "steps", "rate", "rows"),
    [("ColoredMNIST", 500, 1e-3, 64), ("PACS", 5000, 5e-5, 32), ("DomainNet", 5000, 5e-5, 32)],
)
def test_phase_1_is_the_papers_in_every_configuration(
    name: str, dataset: str, steps: int, rate: float, rows: int
) -> None:
    """Appendix "Two-phase training": one Phase 1 serves all configurations."""
    data = open_dataset(dataset, None)
    for config in (0, 1, 2):
        hparams = Job(dataset, name, (0,), hparams_seed=config).configuration(data)
        assert (hparams["cro_phase1_steps"], hparams["lr"]) == (steps, rate)
        assert (hparams["batch_size"], hparams["weight_decay"]) == (rows, 0)
        assert hparams["resnet_dropout"] == hparams["vit_dropout"] == 0
    erm = Job(dataset, "ERM", (0,), hparams_seed=1).configuration(data)
    assert erm["lr"] != rate  # which is searched


def noisy_batch(**shape: Any) -> Batch:
    x, y = draw_batch(n_domains=2, **shape)
    flips = torch.rand(y.shape, generator=torch.Generator().manual_seed(0)) < 0.2
    return x, torch.where(flips, 1 - y, y)


def features_of(algorithm: Any, x: torch.Tensor) -> Any:
    with torch.no_grad():
        return algorithm.featurizer(x.flatten(0, 1)).double().numpy()


@pytest.mark.parametrize(
    ("name", "head", "hparams"),
    [
        ("JTT", JTTClassifier(upweight=6.0, ridge=1e-3), {"jtt_upweight": 6.0, "ridge": 1e-3}),
        ("JTT", JTTClassifier(reference_ridge=0.5), {"reference_ridge": 0.5}),
        ("EIIL", EIILClassifier(reference_ridge=0.5), {"reference_ridge": 0.5}),
        ("XRM", XRMClassifier(ridge=1e-3), {"ridge": 1e-3}),
    ],
)
def test_phase_2_is_the_head_of_the_same_name(name: str, head: Any, hparams: Any) -> None:
    algorithm = make(name, **hparams).double()
    x, y = noisy_batch(b=60)
    x = x.double()
    algorithm.conclude([(0, x[0], y[0]), (1, x[1], y[1])])
    features = features_of(algorithm, x)
    model = clone(head).fit(features, y.flatten().numpy(), np.repeat([0, 1], 60))
    logits = algorithm.predict(x.flatten(0, 1)).detach().numpy()
    found, expected = logits[:, 1] - logits[:, 0], model.decision_function(features)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("shape", "b"), [(VECTORS, 60), (IMAGES, 20)])
def test_phase_2_is_the_game_on_the_features(shape: tuple[int, ...], b: int) -> None:
    algorithm = make("CRO", input_shape=shape, cro_radius=2.0)
    x, y = noisy_batch(b=b, input_shape=shape)
    half = b // 2
    algorithm.conclude(
        [(0, x[0], y[0]), (1, x[1, :half], y[1, :half]), (1, x[1, half:], y[1, half:])]
    )
    assert algorithm.training
    features = features_of(algorithm, x)
    with torch.no_grad():
        logits = algorithm.predict(x.flatten(0, 1)).numpy()
    model = CROClassifier("hull", radius=2.0)
    head = model.fit(features, y.flatten().numpy(), np.repeat([0, 1], b))
    found = logits[:, 1] - logits[:, 0]
    np.testing.assert_allclose(found, head.decision_function(features), rtol=1e-2, atol=1e-2)


def test_a_class_that_no_source_has_is_never_predicted() -> None:
    algorithm = make("CRO", n_classes=3)
    x, y = noisy_batch(b=40)
    algorithm.conclude([(0, x[0], 2 * y[0]), (1, x[1], 2 * y[1])])
    assert set(algorithm.predict(x.flatten(0, 1)).argmax(1).tolist()) == {0, 2}


@pytest.mark.parametrize("group", ["small images", "features"])
def test_the_radius_is_an_assumption_and_never_drawn(group: str) -> None:
    hparam = find_algorithm("CRO").space(group)["cro_radius"]  # type: ignore[arg-type]
    draws = {hparam.draw(np.random.RandomState(seed)) for seed in range(5)}
    assert draws == {hparam.default} == {8.0}


def test_it_holds_where_the_confounder_turns_round(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    domain = np.repeat([0, 1, 2], 2000)
    y = rng.integers(2, size=6000)
    cause = np.where(rng.random(6000) < 0.75, y, 1 - y)
    colour = np.where(rng.random(6000) < np.array([0.95, 0.8, 0.05])[domain], y, 1 - y)
    X = 2 * np.column_stack([cause, colour]) - 1 + 0.1 * rng.standard_normal((6000, 2))
    np.savez(tmp_path / "turn.npz", X=X, label=y, domain=domain)
    fingerprint = open_dataset("turn", tmp_path).fingerprint
    shares = {}
    for name, overrides in (("ERM", "{}"), ("CRO", '{"cro_radius": 8}'), ("CROLatent", "{}")):
        job = Job("turn", name, (2,), overrides=overrides, fingerprint=fingerprint)
        assignment = Assignment((job,), tmp_path / "out", tmp_path)
        assert [outcome.state for outcome in perform(assignment)] == ["done"]
        shares[name] = assignment.folder(job).records()[-1]["env2_in_acc"]
    assert shares["ERM"] < 0.3
    assert shares["CRO"] > 0.7
    assert shares["CROLatent"] > 0.7
