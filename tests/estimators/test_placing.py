"""Place a new domain among the mixtures of a fitted model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft import CROClassifier, ERMClassifier, Placement, load, place, save
from regraft.data.examples import DemoBank, load_demo


@pytest.fixture(scope="module")
def demo() -> DemoBank:
    return load_demo()


@pytest.fixture(scope="module")
def model(demo: DemoBank) -> CROClassifier:
    return CROClassifier().fit(demo.X, demo.y, demo.sample_domain)


def test_the_unseen_domain_is_placed_without_labels(demo: DemoBank, model: CROClassifier) -> None:
    placed = place(model, demo.X_target)
    rare = int(np.argmin(placed.source_shares["+90%"]))  # rows whose colour contradicts the label
    truth = (demo.colour_target != demo.y_target).mean()
    truth = max(truth, 1 - truth)
    assert placed.lower[rare] <= truth <= placed.upper[rare]
    assert placed.upper[rare] - placed.lower[rare] < 0.2
    assert placed.is_placed and placed.is_mixture
    accuracy = (model.predict(demo.X_target) == demo.y_target).mean()
    assert placed.expected_accuracy == pytest.approx(accuracy, abs=0.05)
    closure, where = placed.paragraphs()
    assert "with 95 % confidence" in where and "Nothing speaks against" in closure


def test_noise_is_no_mix_of_what_the_sources_have(demo: DemoBank, model: CROClassifier) -> None:
    noise = np.random.default_rng(0).standard_normal((100, demo.X.shape[1])) * demo.X.std(axis=0)
    mixed = np.concatenate([demo.X_target[:400], demo.X_target[400:500] + noise])
    placed = place(model, mixed)
    assert not placed.is_mixture
    closure, where = placed.paragraphs()
    assert "not a mix" in closure and where.startswith("If it were one all the same")
    assert np.mean([row >= 400 for row in placed.alien_rows]) > 0.6


def test_a_saved_model_places_the_same_and_without_its_rows_says_so(
    demo: DemoBank, model: CROClassifier, tmp_path: Path
) -> None:
    save(model, tmp_path / "m")
    X = demo.X_target[:50]
    loaded = load(tmp_path / "m")
    assert isinstance(loaded, CROClassifier)
    assert place(loaded, X) == place(model, X)
    (tmp_path / "m" / "reference.safetensors").unlink()
    without = load(tmp_path / "m")
    np.testing.assert_array_equal(without.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="no reference rows of its sources: fit it again"):
        place(without, X)  # type: ignore[arg-type]
    save(without, tmp_path / "again")
    assert not (tmp_path / "again" / "reference.safetensors").exists()


def test_a_damaged_file_of_rows_is_named(
    demo: DemoBank, model: CROClassifier, tmp_path: Path
) -> None:
    save(model, tmp_path / "m")
    (tmp_path / "m" / "reference.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ValueError, match=r"damaged \(reference\.safetensors was changed"):
        load(tmp_path / "m")


def test_one_group_has_no_shares_but_a_test_of_closure(demo: DemoBank) -> None:
    shuffled = np.random.default_rng(0).permutation(demo.sample_domain)
    model = CROClassifier().fit(demo.X[::4], demo.y[::4], shuffled[::4])
    assert model.certificate_.n_groups == 1  # type: ignore[attr-defined]
    placed = place(model, demo.X[1::4][:300])
    assert placed.shares == (1.0,) and not placed.is_placed and placed.is_mixture
    assert "no shares to estimate" in placed.paragraphs()[1]


def test_rows_that_tell_nothing_are_said_to() -> None:
    shown = dict(rows=30, shares=(0.5, 0.5), lower=(0.0, 0.0), upper=(1.0, 1.0), told=0.001)
    placed = Placement(
        **shown,  # type: ignore[arg-type]
        p_value=0.5,
        gap=0.0,
        alien_rows=(),
        expected_accuracy=0.5,
        source_shares={},
    )
    assert "tell nothing" in placed.paragraphs()[1]


def _rows(demo: DemoBank) -> np.ndarray:
    return demo.X_target[:40].copy()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X[:3], "the target has 3 rows: pass 10 or more"),
        (lambda X: X[:, :7], "7 features"),
        (lambda X: np.where(np.arange(128) == 5, np.nan, X), "NaN|missing|finite"),
    ],
)
def test_rows_that_cannot_be_placed(
    demo: DemoBank, model: CROClassifier, change: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        place(model, change(_rows(demo)))


def test_a_source_is_no_new_domain(demo: DemoBank, model: CROClassifier) -> None:
    with pytest.raises(ValueError, match="holds the rows of the source"):
        place(model, demo.X[demo.sample_domain == "+90%"])


def test_models_without_groups_are_refused(demo: DemoBank) -> None:
    data = demo.X[::20], demo.y[::20], demo.sample_domain[::20]
    with pytest.raises(ValueError, match="hull learns nothing from unlabelled rows"):
        place(CROClassifier("hull").fit(*data), _rows(demo))
    with pytest.raises(ValueError, match="ERMClassifier has no hidden groups"):
        place(ERMClassifier().fit(*data), _rows(demo))  # type: ignore[arg-type]
