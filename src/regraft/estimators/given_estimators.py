"""Classifiers of other libraries in a comparison: read from text, fitted, and asked."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV

from regraft.estimators.comparison_metrics import Predictions

_EXAMPLE = "sklearn.ensemble.RandomForestClassifier(n_estimators=100)"
_SCORES = "predict_proba", "decision_function"


def read_estimators(texts: list[str]) -> dict[str, Any]:
    """Read classifiers from texts such as ``forest=sklearn.ensemble.RandomForestClassifier()``.

    This imports the module that a text names. Parameters are numbers, texts, lists and the like,
    and nothing else of a text is run. A classifier without a name is called by its class.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, model = _read(text)
        if name in found:
            raise ValueError(f"two models are called {name}: name one, as in NAME={_EXAMPLE}.")
        found[name] = model
    return found


def _read(text: str) -> tuple[str, Any]:
    name, equals, path = text.partition("=")
    if not equals or "(" in name:
        name, path = "", text
    wrong = f"model {text!r} is no import path: pass one such as {_EXAMPLE}."
    try:
        tree = ast.parse(path.strip(), mode="eval").body
    except SyntaxError:
        raise ValueError(wrong) from None
    called = tree.func if isinstance(tree, ast.Call) else tree
    dotted = ast.unparse(called)
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", dotted):
        raise ValueError(wrong)
    parameters = _read_parameters(tree, dotted) if isinstance(tree, ast.Call) else {}
    kind = _import_class(dotted)
    if "random_state" in inspect.signature(kind).parameters:
        parameters.setdefault("random_state", 0)  # the same command gives the same numbers
    try:
        model = kind(**parameters)
    except Exception as error:
        raise ValueError(f"{dotted} does not take these parameters: {_reason(error)}.") from None
    return name.strip() or kind.__name__.removesuffix("Classifier"), model


def _read_parameters(call: ast.Call, dotted: str) -> dict[str, Any]:
    """Read the parameters of a call, which all have a name and a plain value."""
    if call.args or any(each.arg is None for each in call.keywords):
        raise ValueError(f"a parameter of {dotted} has no name: write {_EXAMPLE}.")
    parameters: dict[str, Any] = {}
    for each in call.keywords:
        assert each.arg is not None
        try:
            parameters[each.arg] = ast.literal_eval(each.value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            raise ValueError(
                f"parameter {each.arg} of {dotted} is not a number, a text, a list or the like: "
                "pass such a value, or call compare in Python."
            ) from None
    return parameters


def _import_class(dotted: str) -> Any:
    module, _, name = dotted.rpartition(".")
    try:
        kind = getattr(import_module(module), name, None)
    except Exception as error:
        raise ValueError(
            f"{module} cannot be imported ({_reason(error)}): install it, or correct the path."
        ) from None
    if not inspect.isclass(kind):
        raise ValueError(f"{module} has no class {name}: correct the path.")
    _check_methods(dotted, kind)
    return kind


def check_estimators(estimators: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` unless all are classifiers as scikit-learn has them."""
    for name, model in estimators.items():
        if inspect.isclass(model):
            raise ValueError(f"estimator {name} is a class: pass {model.__name__}() instead.")
        _check_methods(f"estimator {name}", model)
        if hasattr(model, "__sklearn_tags__") and not is_classifier(model):
            raise ValueError(f"estimator {name} is no classifier: pass one.")


def _check_methods(name: str, model: Any) -> None:
    missing = [each for each in ("fit", "predict", "get_params") if not hasattr(model, each)]
    if not missing and not any(hasattr(model, each) for each in _SCORES):
        missing = [" or ".join(_SCORES)]
    if missing:
        raise ValueError(
            f"{name} has no {missing[0]}: pass a classifier that follows scikit-learn's interface."
        )


def fit_given(name: str, model: Any, X: NDArray[Any], y: NDArray[Any], domain: NDArray[Any]) -> Any:
    """Return a fresh copy of ``model``, fitted on rows of the sources."""
    try:
        fitted = clone(model)
        return fitted.fit(X, y, **fit_arguments(fitted, domain))
    except Exception as error:
        raise ValueError(f"{name} cannot be fitted: {_reason(error)}.") from error


def fit_arguments(model: Any, domain: NDArray[Any]) -> dict[str, Any]:
    """Return the domains of the rows under each name by which ``model.fit`` asks for them.

    Heads ask for ``sample_domain``, others and splitters of a search for ``groups``.
    """
    steps = getattr(model, "steps", None)
    if steps:
        name, last = steps[-1]
        return {f"{name}__{key}": value for key, value in fit_arguments(last, domain).items()}
    taken = inspect.signature(model.fit).parameters
    found = {name: domain for name in ("sample_domain", "groups") if name in taken}
    if isinstance(model, (GridSearchCV, RandomizedSearchCV)):
        found |= fit_arguments(model.estimator, domain)
        if hasattr(model.cv, "get_metadata_routing"):
            requests = model.cv.get_metadata_routing().split.requests
            found |= {"groups": domain} if requests.get("groups") else {}
    return found


def predict_given(name: str, model: Any, X: NDArray[Any], classes: NDArray[Any]) -> Predictions:
    """Ask a fitted classifier about rows; its columns are put in the order of ``classes`` (C,)."""
    try:
        said = np.asarray(model.predict(X))
        known = np.searchsorted(classes, np.asarray(model.classes_))
        values: dict[str, NDArray[np.float64] | None] = dict.fromkeys(_SCORES)
        for method in _SCORES:
            if hasattr(model, method):
                columns = np.asarray(getattr(model, method)(X), np.float64)
                if columns.ndim == 1:
                    columns = np.column_stack([-columns, columns])
                values[method] = spread_columns(columns, known, len(classes), method)
                break
    except Exception as error:
        raise ValueError(f"{name} cannot predict: {_reason(error)}.") from error
    probabilities, decision = values.values()
    scores = decision if probabilities is None else probabilities
    return Predictions(np.searchsorted(classes, said), probabilities, scores)


def spread_columns(
    columns: NDArray[np.float64], known: NDArray[np.intp], n_classes: int, kind: str
) -> NDArray[np.float64]:
    """Put columns (n, k) at the places ``known`` of all classes; the others are never likely."""
    if columns.shape[1] != len(known):
        raise ValueError(f"{kind} gives {columns.shape[1]} columns for {len(known)} classes")
    if len(known) == n_classes:
        return columns
    fill = 0.0 if kind == "predict_proba" else columns.min() - 1
    whole = np.full((len(columns), n_classes), fill)
    whole[:, known] = columns
    return whole


def _reason(error: BaseException) -> str:
    """Return what an error says, in one line and without full stops."""
    said = " ".join(str(error).split()).rstrip(".").replace(". ", "; ")
    return said or type(error).__name__
