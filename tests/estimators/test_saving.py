"""Saved heads come back as they were, and nothing else is taken for one."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import safetensors.numpy
from sklearn.base import clone

from regraft.core.group_certificate import GroupCertificate
from regraft.estimators.baselines import (
    ERMClassifier,
    GroupDROClassifier,
    IRMClassifier,
    VRExClassifier,
)
from regraft.estimators.column_roles import ColumnRoles
from regraft.estimators.cro import CROClassifier
from regraft.estimators.encoder_record import EncoderRecord
from regraft.estimators.group_search import EIILClassifier, JTTClassifier, XRMClassifier
from regraft.estimators.linear import LinearHead
from regraft.estimators.literal import LiteralCROClassifier
from regraft.estimators.model_files import ARRAYS, CARD, DESCRIPTION, REFERENCE
from regraft.estimators.saving import load, save
from tests.helpers.errors import refused

pytestmark = pytest.mark.filterwarnings(
    "ignore:a radius of", "ignore:.*was saved without checksums"
)


@pytest.fixture(scope="module")
def model(problem: Any) -> CROClassifier:
    return CROClassifier("hull", radius=2.0).fit(*problem.data)


def saved(head: LinearHead, path: Path) -> Any:
    """The head, saved and loaded again."""
    save(head, path)
    return load(path)


def entries(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize(
    "estimator",
    [
        CROClassifier(),
        CROClassifier(prior_shift=np.float64(1.0), class_groups=True, ridge=0.01),
        CROClassifier("hull", radius=np.float64(3.0), objective="regret", rank=1, ridge=0.01),
        ERMClassifier(),
        GroupDROClassifier(ridge=0.01),
        VRExClassifier(penalty=2.0),
        JTTClassifier(upweight=4.0),
        EIILClassifier(),
        XRMClassifier(),
        IRMClassifier(),
        LiteralCROClassifier(cro_rank=2, cro_adv_epochs=2, cro_adv_batch=32, cro_gap_eps=0.05),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_every_head_predicts_the_same_bits(
    tmp_path: Path, problem: Any, estimator: LinearHead
) -> None:
    fitted = clone(estimator).fit(*problem.data)
    loaded = saved(fitted, tmp_path / "m")
    assert type(loaded) is type(fitted)
    assert loaded.get_params() == fitted.get_params()
    for ask in ("decision_function", "predict_proba"):
        answers = (getattr(head, ask)(problem.X) for head in (loaded, fitted))
        np.testing.assert_array_equal(*answers)
    np.testing.assert_array_equal(loaded.domains_, fitted.domains_)
    assert getattr(loaded, "certificate_", None) == getattr(fitted, "certificate_", None)
    for name in ("group_map_", "group_heads_", "group_prior_", "hull_heads_", "hull_mixing_"):
        arrays = (getattr(head, name, None) for head in (loaded, fitted))
        np.testing.assert_array_equal(*arrays)
    assert entries(tmp_path) == ["m"]
    rows = [REFERENCE] if hasattr(fitted, "reference_") else []
    assert entries(tmp_path / "m") == [CARD, DESCRIPTION, ARRAYS, *rows]


def test_the_evidence_of_the_game_comes_back_from_plain_json(
    tmp_path: Path, model: CROClassifier
) -> None:
    loaded = saved(model, tmp_path / "m")
    assert isinstance(loaded, CROClassifier)
    assert loaded.certificate_ == model.certificate_
    assert loaded.rounds_ == model.rounds_
    assert loaded.regularization_ == model.regularization_
    np.testing.assert_array_equal(loaded.source_heads_, model.source_heads_)
    np.testing.assert_array_equal(loaded.pooled_head_, model.pooled_head_)
    assert loaded.witness().rank == model.witness().rank
    description = json.loads((tmp_path / "m" / DESCRIPTION).read_text())
    assert description["format"] == 3
    assert description["class"] == "CROClassifier"
    assert description["parameters"]["radius"] == 2.0
    assert description["classes"] == {"dtype": "<i8", "values": [0, 1]}


def test_what_was_found_comes_back_with_its_witness(tmp_path: Path, problem: Any) -> None:
    model = CROClassifier().fit(*problem.data)
    loaded = saved(model, tmp_path / "m")
    assert isinstance(loaded.certificate_, GroupCertificate)
    assert loaded.certificate_.n_groups == 2 and loaded.rounds_ == model.rounds_ != ()
    assert loaded.certificate_.summary() == model.certificate_.summary()
    np.testing.assert_array_equal(loaded.witness().basis, model.witness().basis)
    edited(tmp_path / "m", certificate={**model.certificate_.to_dict(), "n_groups": 3})
    with refused("group_map has shape"):
        load(tmp_path / "m")


@pytest.mark.parametrize(
    "labels",
    [
        np.array([-3, 7]),
        np.array([0, 1], np.uint8),
        np.array([False, True]),
        np.array([0.0, 1.0], np.float32),
        np.array(["café", "naïve"]),
        np.array(["a", "b"], object),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_and_domains_keep_their_type(tmp_path: Path, problem: Any, labels: Any) -> None:
    domain = labels[(problem.domain == "source 1").astype(int)]
    fitted = ERMClassifier().fit(problem.X, labels[problem.y], domain)
    loaded = saved(fitted, tmp_path / "m")
    prediction = loaded.predict(problem.X)
    np.testing.assert_array_equal(prediction, fitted.predict(problem.X))
    assert prediction.dtype == fitted.predict(problem.X).dtype
    assert loaded.domains_.dtype == fitted.domains_.dtype
    assert [type(label) for label in loaded.classes_.tolist()] == [
        type(label) for label in fitted.classes_.tolist()
    ]


def test_feature_names_come_back(tmp_path: Path, problem: Any) -> None:
    frame = pandas.DataFrame(problem.X, columns=[f"f{i}" for i in range(problem.X.shape[1])])
    fitted = ERMClassifier().fit(frame, problem.y, problem.domain)
    loaded = saved(fitted, tmp_path / "m")
    assert loaded.feature_names_in_.tolist() == list(frame.columns)
    np.testing.assert_array_equal(loaded.predict(frame), fitted.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[frame.columns[::-1]])


def test_the_encoder_and_the_names_of_columns_come_back(tmp_path: Path, problem: Any) -> None:
    model = ERMClassifier().fit(*problem.data)
    save(model, tmp_path / "model")
    assert not {"encoder_", "column_roles_"} & vars(load(tmp_path / "model")).keys()
    model.encoder_ = EncoderRecord("resnet", "a" * 64, "mine.safetensors", "images", {"size": 4})
    model.column_roles_ = ColumnRoles("ill", "hospital", "patient")
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.encoder_ == model.encoder_ and loaded.column_roles_ == model.column_roles_
    model.column_roles_ = ColumnRoles(None, "hospital")  # type: ignore[arg-type]
    save(model, tmp_path / "model")
    with pytest.raises(ValueError, match=r"damaged .*columns without names"):
        load(tmp_path / "model")


def test_saving_replaces_a_model_and_creates_parents(
    tmp_path: Path, model: CROClassifier, problem: Any
) -> None:
    folder = tmp_path / "deep" / "er"
    save(ERMClassifier().fit(*problem.data), folder)
    assert isinstance(saved(model, folder), CROClassifier)
    assert entries(folder.parent) == ["er"]
    (tmp_path / "empty").mkdir()
    assert isinstance(saved(model, tmp_path / "empty"), CROClassifier)


def test_what_is_not_a_model_is_never_overwritten(tmp_path: Path, model: CROClassifier) -> None:
    foreign = tmp_path / "thesis"
    foreign.mkdir()
    (foreign / "chapter.txt").write_text("years of work")
    save(model, tmp_path / "mixed")
    (tmp_path / "mixed" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("text")
    before = entries(tmp_path)
    for name, message in (("thesis", "chapter"), ("mixed", "notes"), ("file", "is a file")):
        with refused(message):
            save(model, tmp_path / name)
    assert entries(tmp_path) == before
    assert (foreign / "chapter.txt").read_text() == "years of work"
    assert isinstance(load(tmp_path / "mixed"), CROClassifier)


def test_the_card_is_part_of_the_model(tmp_path: Path, model: CROClassifier) -> None:
    folder = tmp_path / "m"
    save(model, folder)
    card = (folder / CARD).read_text("utf-8")
    (folder / CARD).write_text("edited")
    save(model, folder)
    assert (folder / CARD).read_text("utf-8") == card
    (folder / CARD).unlink()
    (folder / CARD).mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / CARD).write_text("of something else")
    for other in (folder, tmp_path / "project"):
        with refused(CARD):
            save(model, other)
    assert (tmp_path / "project" / CARD).read_text() == "of something else"


def test_a_model_with_a_certificate_of_before_is_refused(
    tmp_path: Path, model: CROClassifier
) -> None:
    save(model, tmp_path / "m")
    edited(tmp_path / "m", format=2, regraft="0.0.9")
    with refused("has format 2, but this regraft"):
        load(tmp_path / "m")


def test_a_failed_save_leaves_the_old_model_and_nothing_else(
    tmp_path: Path, model: CROClassifier
) -> None:
    folder = tmp_path / ("m" * 250)  # nearly as long as names may be
    save(model, folder)
    save(model, folder)
    resource = pytest.importorskip("resource")  # not on Windows
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))  # bytes of a file
    try:
        with pytest.raises(OSError):
            save(model, folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert entries(tmp_path) == [folder.name]
    assert isinstance(load(folder), CROClassifier)


def test_what_cannot_be_saved_is_refused(tmp_path: Path, problem: Any) -> None:
    class Mine(ERMClassifier):
        pass

    dates = np.array(["2020-01-01", "2021-01-01"], "datetime64[D]")[problem.y]
    strange = ERMClassifier().fit(*problem.data)
    strange.classes_ = np.unique(dates)
    odd = VRExClassifier().fit(*problem.data)
    odd.penalty = [1.0]  # type: ignore[assignment]
    cases: list[tuple[LinearHead, str]] = [
        (ERMClassifier(), "not fitted"),
        (Mine().fit(*problem.data), "Mine cannot be saved"),
        (strange, "classes have type datetime64"),
        (odd, "penalty is a list"),
    ]
    for head, message in cases:
        with refused(message):
            save(head, tmp_path / "m")
    assert entries(tmp_path) == []


def edited(folder: Path, **changes: Any) -> None:
    """Change the description, without the checksums that would tell of it first."""
    path = folder / DESCRIPTION
    document = {**json.loads(path.read_text()), **changes}
    document.pop("sha256", None)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("name", [ARRAYS, DESCRIPTION])
def test_a_flipped_byte_is_noticed(tmp_path: Path, model: CROClassifier, name: str) -> None:
    save(model, tmp_path / "m")
    content = bytearray((tmp_path / "m" / name).read_bytes())
    changed = content.find(b"2.0") if name == DESCRIPTION else len(content) - 3
    content[changed] ^= 1
    (tmp_path / "m" / name).write_bytes(content)
    with refused(rf"is damaged \({name} was changed since"):
        load(tmp_path / "m")


def test_weights_that_are_not_finite_are_refused(tmp_path: Path, model: CROClassifier) -> None:
    save(model, tmp_path / "m")
    arrays = safetensors.numpy.load_file(tmp_path / "m" / ARRAYS)
    arrays["coef"] = np.full_like(arrays["coef"], np.nan)
    safetensors.numpy.save_file(arrays, tmp_path / "m" / ARRAYS)
    edited(tmp_path / "m")
    with pytest.warns(UserWarning, match="without checksums"), refused("coef is not finite"):
        load(tmp_path / "m")


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: shutil.rmtree(f), "does not exist"),
        (lambda f: (f / ARRAYS).unlink(), "not a saved model"),
        (lambda f: (f / DESCRIPTION).unlink(), "not a saved model"),
        (lambda f: truncate(f / ARRAYS), "damaged"),
        (lambda f: (f / ARRAYS).write_bytes(b""), "damaged"),
        (lambda f: (f / ARRAYS).write_bytes(b"PK\x03\x04 a foreign file"), "damaged"),
        (lambda f: truncate(f / DESCRIPTION), "damaged"),
        (lambda f: (f / DESCRIPTION).write_bytes(b"\xff\xfe\x00"), "damaged"),
        (lambda f: (f / DESCRIPTION).write_text("[1, 2]"), "does not describe"),
        (lambda f: (f / DESCRIPTION).write_text('{"name": "other"}'), "does not describe"),
        (lambda f: edited(f, format=99), "format 99"),
        (lambda f: edited(f, **{"class": "os.system"}), "'os.system'"),
        (lambda f: edited(f, **{"class": ["CROClassifier"]}), "names the class"),
        (lambda f: edited(f, n_features=3), "coef has shape"),
        (lambda f: edited(f, n_features=None), "damaged"),
        (lambda f: edited(f, classes={"dtype": "<i8", "values": [0, 1, 2]}), "coef has shape"),
        (lambda f: edited(f, classes={"dtype": "datetime64[D]", "values": [0, 1]}), "damaged"),
        (lambda f: edited(f, classes={"dtype": "nonsense", "values": [0, 1]}), "damaged"),
        (lambda f: edited(f, classes=None), "damaged"),
        (lambda f: edited(f, domains={"dtype": "<i8", "values": [0]}), "source_heads has shape"),
        (lambda f: edited(f, parameters={"depth": 3}), "damaged"),
        (lambda f: edited(f, certificate={}), "damaged"),
        (lambda f: edited(f, regularization={"shrinkage": 1}), "damaged"),
        (lambda f: edited(f, feature_names=["one"]), "feature_names has shape"),
    ],
)
def test_damaged_models_are_told_in_one_sentence(
    tmp_path: Path, model: CROClassifier, damage: Any, message: str
) -> None:
    save(model, tmp_path / "m")
    damage(tmp_path / "m")
    with refused(message):
        load(tmp_path / "m")
