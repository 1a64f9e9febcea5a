"""Fitted heads, also with preprocessing, saved as folders of plain files, without pickle."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import sklearn
import torch
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from regraft._version import __version__
from regraft.core.certificates import certificate_from_dict
from regraft.core.group_certificate import GroupCertificate
from regraft.core.heads import Regularization
from regraft.core.reference import Reference
from regraft.estimators.adapted import AdaptedClassifier
from regraft.estimators.baselines import (
    ERMClassifier,
    GroupDROClassifier,
    IRMClassifier,
    VRExClassifier,
)
from regraft.estimators.card import model_card
from regraft.estimators.column_roles import ColumnRoles
from regraft.estimators.cro import CROClassifier
from regraft.estimators.encoder_record import EncoderRecord
from regraft.estimators.game_head import GameHead
from regraft.estimators.group_search import EIILClassifier, JTTClassifier, XRMClassifier
from regraft.estimators.linear import LinearHead, SoftmaxHead
from regraft.estimators.literal import LiteralCROClassifier
from regraft.estimators.model_files import (
    ARRAYS,
    CARD,
    DESCRIPTION,
    REFERENCE,
    find_model,
    is_model,
)
from regraft.estimators.model_seal import check_seal, seal_model, sealed_files
from regraft.estimators.pipelines import Model, join_model, split_model
from regraft.estimators.table_features import TableFeatures
from regraft.estimators.target_certificate import TargetCertificate
from regraft.estimators.transformer_state import describe_transformer, restore_transformer
from regraft.support.files import explaining_full_disk
from regraft.support.json_files import load_json
from regraft.support.publishing import publishing
from regraft.support.reading import read_file
from regraft.support.runs import check_run

FORMAT = 3
FORMAT_WITH_PREPROCESSING = 4  # so that versions that would leave it out refuse the model
_CLASSES: dict[str, type[SoftmaxHead]] = {
    cls.__name__: cls
    for cls in (
        CROClassifier,
        LiteralCROClassifier,
        ERMClassifier,
        GroupDROClassifier,
        IRMClassifier,
        VRExClassifier,
        EIILClassifier,
        JTTClassifier,
        XRMClassifier,
        AdaptedClassifier,
    )
}
_LABEL_KINDS = "biufUO"
_PREFIX = "preprocessing/"  # of arrays


def save(model: Model, path: str | Path) -> None:
    """Save a fitted model to the folder ``path``, replacing a model saved there before.

    A model card, README.md, is written beside it, for people and for Hugging Face's hub. The folder
    appears complete or not at all.

    Parameters
    ----------
    model : SoftmaxHead or Pipeline
        Fitted head of Regraft, or a pipeline of scikit-learn's transformers that ends in one.
    path : str or Path
        The folder to write.

    Raises
    ------
    ValueError
        If ``path`` holds something else, or if the model cannot be written.
    """
    path = Path(path).resolve()
    check_destination(path)
    before, head = split_model(model)
    described = _describe(head)
    values = {name: np.ascontiguousarray(_array(head, name)) for name in _shapes(head)}
    if isinstance(model, Pipeline) and before is not None:
        described |= {
            "format": FORMAT_WITH_PREPROCESSING,
            "scikit-learn": sklearn.__version__,
            "preprocessing": describe_transformer(before, values, _PREFIX),
            "step": model.steps[-1][0],
        }
    files = {ARRAYS: safetensors.numpy.save(values)}
    if (reference := _reference_bytes(head)) is not None:
        files[REFERENCE] = reference
    files[DESCRIPTION] = seal_model(described, files).encode()
    files[CARD] = model_card(model).encode()
    with publishing(path.parent) as stage:
        fresh = stage / path.name
        fresh.mkdir()
        for name, content in files.items():
            with explaining_full_disk(path / name, len(content)):
                (fresh / name).write_bytes(content)


def load(path: str | Path) -> Model:
    """Load a model; its predictions are the same bit by bit.

    Parameters
    ----------
    path : str or Path
        Folder that :func:`save` wrote, or one that has it as its folder model, as ``regraft fit``
        leaves it.

    Returns
    -------
    SoftmaxHead or Pipeline
        What was saved.

    Raises
    ------
    ValueError
        If the folder is not a saved model or is damaged.
    """
    path = find_model(Path(path))
    if not is_model(path):
        found = "is not a saved model" if path.exists() else "does not exist"
        raise ValueError(
            f"{path} {found}: pass the folder that regraft fit wrote, or one with {DESCRIPTION} "
            f"and {ARRAYS}."
        )
    check_run(path.parent, f"{path.name}/{DESCRIPTION}")
    description = _read_description(path / DESCRIPTION)
    contents = {name: read_file(path / name, path) for name in sealed_files(path)}
    check_seal(path, description, contents)
    arrays, *others = (_read_arrays(path / name, content) for name, content in contents.items())
    rows = others[0] if others else None
    try:
        model = _rebuild(description, arrays)
        if rows is not None and isinstance(model, CROClassifier):
            model.reference_ = _restore_reference(model, rows)
        if "preprocessing" not in description:
            return model
        before = _restore_preprocessing(description, arrays, model.n_features_in_)
        return join_model(before, model, str(description["step"]))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged ({type(error).__name__}: {error}): save the model again."
        ) from None


def _restore_preprocessing(
    description: dict[str, Any], arrays: dict[str, NDArray[Any]], n_features: int
) -> Pipeline:
    """Rebuild what comes before the head, and check that its features are those of the head."""
    fitted, here = str(description["scikit-learn"]), sklearn.__version__
    if fitted.split(".")[:2] != here.split(".")[:2]:
        warnings.warn(
            f"the model was saved with scikit-learn {fitted} and is loaded with {here}: compare "
            "some predictions, or install that version.",
            stacklevel=3,
        )
    before = restore_transformer(description["preprocessing"], arrays)
    if not isinstance(before, Pipeline):
        raise ValueError("preprocessing that is no pipeline")
    first = before.steps[0][1]
    if isinstance(first, TableFeatures):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a row of gaps, which fit need not have seen
            row = before.transform({name: [None] for name in first.columns_})
        _check_shape("preprocessing", row, (1, n_features))
    return before


def _read_arrays(path: Path, content: bytes) -> dict[str, NDArray[Any]]:
    try:
        arrays: dict[str, NDArray[Any]] = safetensors.numpy.load(content)
    except safetensors.SafetensorError:
        raise ValueError(f"{path} is damaged: save the model again.") from None
    return arrays


def _reference_bytes(model: SoftmaxHead) -> bytes | None:
    """Return the file of source rows that a model carries; None if it carries none."""
    if not hasattr(model, "reference_"):
        return None
    arrays = {name: value.numpy() for name, value in vars(model.reference_).items()}
    return safetensors.numpy.save(
        {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    )


def _restore_reference(model: CROClassifier, arrays: dict[str, NDArray[Any]]) -> Reference:
    G, C, _ = model.group_heads_.shape
    m = len(arrays["y"])
    shapes: dict[str, tuple[int, ...]] = {
        "X": (m, model.n_features_in_),
        "belief": (m, G),
        "log_joint": (m, G, C),
        "shares": (G,),
        "sampled": (1,),
    }
    for field in fields(Reference):
        _check_shape(field.name, arrays[field.name], shapes.get(field.name, (m,)))
        if np.isnan(arrays[field.name]).any():
            raise ValueError(f"{field.name} of the reference is not a number")
    return Reference(
        **{field.name: torch.from_numpy(arrays[field.name].copy()) for field in fields(Reference)}
    )


def check_destination(path: Path) -> None:
    """Raise ``ValueError`` unless a model may be written to the folder ``path``."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file: choose a folder for the model.")
    if path.exists() and not os.access(path, os.W_OK | os.X_OK):
        raise ValueError(f"{path} is not writable: choose another folder.")
    others = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
    if is_model(path):
        others -= {DESCRIPTION, ARRAYS, REFERENCE}
        if (path / CARD).is_file():
            others.remove(CARD)
    if others:
        raise ValueError(
            f"{path} holds other files ({min(others)}), which saving would delete: choose another "
            "folder."
        )


def _describe(model: SoftmaxHead) -> dict[str, Any]:
    name = type(model).__name__
    if _CLASSES.get(name) is not type(model):
        raise ValueError(f"{name} cannot be saved: pass one of {', '.join(_CLASSES)}.")
    if not hasattr(model, "classes_"):
        raise ValueError(f"this {name} is not fitted: call fit before saving it.")
    description = {
        "format": FORMAT,
        "class": name,
        "regraft": __version__,
        "parameters": {key: _plain(key, value) for key, value in model.get_params().items()},
        "classes": _labels("classes", model.classes_),
        "domains": _labels("domains", model.domains_),
        "n_features": int(model.n_features_in_),
    }
    if hasattr(model, "feature_names_in_"):
        description["feature_names"] = [str(feature) for feature in model.feature_names_in_]
    if hasattr(model, "encoder_"):
        description["encoder"] = model.encoder_._asdict()
    if hasattr(model, "column_roles_"):
        description["columns"] = model.column_roles_._asdict()
    if isinstance(model, GameHead):
        description["certificate"] = model.certificate_.to_dict()
        description["regularization"] = asdict(model.regularization_)
    if isinstance(model, AdaptedClassifier):
        description["certificate"] = model.certificate_.to_dict()
    if isinstance(model, CROClassifier | AdaptedClassifier):
        description["feature_scale"] = model.feature_scale_
    return description


def _shapes(model: SoftmaxHead) -> dict[str, tuple[int | None, ...]]:
    """Return the arrays of a head, with the shapes that its labels and features ask for.

    None stands for any number.
    """
    C, K, d = len(model.classes_), len(model.domains_), int(model.n_features_in_)
    if isinstance(model, AdaptedClassifier):
        return {
            "group_heads": (None, C, d + 1),
            "correction": (C, C + d + 1),
            "feature_mean": (d,),
        }
    shapes: dict[str, tuple[int | None, ...]] = {"coef": (C, d), "intercept": (C,)}
    if isinstance(model, CROClassifier):
        shapes |= {"source_heads": (K, C, d + 1), "pooled_head": (C, d + 1), "feature_mean": (d,)}
        certificate = model.certificate_
        if isinstance(certificate, GroupCertificate):
            G = certificate.n_groups
            shapes |= {"group_map": (G, d + 1), "group_heads": (G, C, d + 1), "group_prior": (C, G)}
        elif model.family == "factorized":
            G = model.n_groups
            shapes |= {"abductions": (K, G, d + 1), "deduction": (G, C, d + 1)}
            shapes["hull_mixing"] = None, K
        else:
            shapes |= {"hull_heads": (K, C, d + 1), "hull_mixing": (None, K)}
    return shapes


def _array(model: SoftmaxHead, name: str) -> NDArray[Any]:
    """Return an array of a head; of two classes, the files keep the weights of both."""
    if isinstance(model, LinearHead) and name in ("coef", "intercept"):
        return model._head[:, :-1] if name == "coef" else model._head[:, -1]
    array: NDArray[Any] = getattr(model, f"{name}_")
    return array


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):  # JSON knows no keys but strings
        return {"pairs": [[_plain(name, each) for each in pair] for pair in value.items()]}
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"{name} is a {type(value).__name__}: only numbers and strings can be saved.")


def _labels(name: str, labels: NDArray[Any]) -> dict[str, Any]:
    if labels.dtype.kind not in _LABEL_KINDS:
        raise ValueError(f"{name} have type {labels.dtype}: only numbers and strings can be saved.")
    values = [_plain(name, value) for value in labels.tolist()]
    return {"dtype": labels.dtype.str, "values": values}


def _read_description(path: Path) -> dict[str, Any]:
    try:
        description = load_json(read_file(path, path.parent))
    except ValueError:  # not JSON, or not even text
        raise ValueError(f"{path} is damaged: save the model again.") from None
    if not isinstance(description, dict) or "format" not in description:
        raise ValueError(f"{path} does not describe a regraft model: pass a folder made by save.")
    if description["format"] not in (FORMAT, FORMAT_WITH_PREPROCESSING):
        raise ValueError(
            f"{path} has format {description['format']!r}, but this regraft ({__version__}) reads "
            f"{FORMAT} and {FORMAT_WITH_PREPROCESSING}: load it with regraft "
            f"{description.get('regraft', 'of its time')}."
        )
    if str(description.get("class")) not in _CLASSES:
        raise ValueError(
            f"{path} names the class {description.get('class')!r}: regraft has "
            f"{', '.join(_CLASSES)}."
        )
    return description


def _rebuild(description: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> SoftmaxHead:
    parameters = {
        name: dict(value["pairs"]) if isinstance(value, dict) else value
        for name, value in description["parameters"].items()
    }
    model = _CLASSES[description["class"]](**parameters)
    if isinstance(model, GameHead):
        model.certificate_ = certificate_from_dict(description["certificate"])
        model.regularization_ = Regularization(**description["regularization"])
    model.classes_ = _restore(description["classes"])
    model.domains_ = _restore(description["domains"])
    model.n_features_in_ = int(description["n_features"])
    for name, shape in _shapes(model).items():
        _check_shape(name, arrays[name], shape)
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name} is not finite")
        if name not in ("coef", "intercept"):
            # A copy, because what safetensors reads is neither writable nor aligned.
            setattr(model, f"{name}_", np.array(arrays[name], dtype=np.float64))
    if isinstance(model, LinearHead):
        model._head = np.column_stack([arrays["coef"], arrays["intercept"]]).astype(np.float64)
    if "feature_names" in description:
        model.feature_names_in_ = np.array(description["feature_names"], dtype=object)
        _check_shape("feature_names", model.feature_names_in_, (model.n_features_in_,))
    if "encoder" in description:
        model.encoder_ = EncoderRecord(**description["encoder"])
    if "columns" in description:
        model.column_roles_ = ColumnRoles.from_dict(description["columns"])
    if isinstance(model, AdaptedClassifier):
        model.certificate_ = TargetCertificate.from_dict(description["certificate"])
    if isinstance(model, CROClassifier | AdaptedClassifier):
        model.feature_scale_ = float(description["feature_scale"])
    return model


def _restore(labels: dict[str, Any]) -> NDArray[Any]:
    dtype = np.dtype(labels["dtype"])
    if dtype.kind not in _LABEL_KINDS:
        raise ValueError(f"labels of type {dtype}")
    return np.array(labels["values"], dtype=dtype)


def _check_shape(name: str, values: NDArray[Any], shape: tuple[int | None, ...]) -> None:
    pairs = zip(shape, values.shape, strict=False)
    if values.ndim != len(shape) or any(want not in (None, have) for want, have in pairs):
        raise ValueError(f"{name} has shape {values.shape} instead of {shape}")
