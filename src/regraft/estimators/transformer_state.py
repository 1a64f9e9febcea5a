"""Fitted transformers of scikit-learn as JSON and arrays, without pickle.

Parameters and learnt attributes of the classes in ``TRANSFORMERS`` are kept as they are. Everything
else, functions above all, is refused.
"""

from __future__ import annotations

from collections import UserList
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from regraft.estimators.table_features import TableFeatures

TRANSFORMERS: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        TableFeatures,
        Pipeline,
        ColumnTransformer,
        FeatureUnion,
        SimpleImputer,
        MissingIndicator,
        StandardScaler,
        MinMaxScaler,
        MaxAbsScaler,
        RobustScaler,
        PowerTransformer,
        QuantileTransformer,
        Normalizer,
        Binarizer,
        KBinsDiscretizer,
        OneHotEncoder,
        OrdinalEncoder,
        PolynomialFeatures,
        PCA,
        TruncatedSVD,
        VarianceThreshold,
        FunctionTransformer,
    )
}
_TAG = "is"  # the key that says what a JSON object stands for
_SCALARS: dict[str, Any] = {  # NumPy's types that are parameters, such as dtype=np.float64
    cls.__name__: cls
    for cls in (np.float64, np.float32, np.int64, np.int32, np.bool_, np.object_, np.str_)
}
_PLAIN_KINDS = "biuf"  # of arrays that safetensors holds; others are written one by one

Arrays = dict[str, NDArray[Any]]


def describe_transformer(transformer: BaseEstimator, arrays: Arrays, prefix: str) -> Any:
    """Return a fitted transformer as JSON data, and put its ``arrays`` under names with ``prefix``.

    Raises ``ValueError`` with one sentence if a part of it cannot be saved.
    """
    return _Writer(arrays, prefix).write(transformer)


def restore_transformer(state: Any, arrays: Arrays) -> Any:
    """Rebuild what :func:`describe_transformer` returned.

    Raises ``ValueError``, ``KeyError`` or ``TypeError`` if the state is damaged.
    """
    return _read(state, arrays)


class _Writer:
    """Writes values as JSON data, and collects arrays on the way."""

    def __init__(self, arrays: Arrays, prefix: str) -> None:
        self.arrays, self.prefix = arrays, prefix

    def write(self, value: Any) -> Any:
        if value is None or isinstance(value, str | bool):
            return value
        if isinstance(value, np.generic):
            return {_TAG: "scalar", "value": self.write(np.asarray(value))}
        if isinstance(value, int):
            return value
        if isinstance(value, float):  # as text, since JSON has no NaN; the bits stay
            return {_TAG: "float", "value": value.hex()}
        if isinstance(value, np.ndarray):
            return self._write_array(value)
        if isinstance(value, UserList):  # the columns that remain, in scikit-learn 1.6
            value = value.data
        if isinstance(value, list):
            return [self.write(item) for item in value]
        if isinstance(value, tuple):
            return {_TAG: "tuple", "items": [self.write(item) for item in value]}
        if isinstance(value, dict):
            items = [[self.write(key), self.write(item)] for key, item in value.items()]
            return {_TAG: "dict", "items": items}
        if isinstance(value, slice):
            bounds = [self.write(each) for each in (value.start, value.stop, value.step)]
            return {_TAG: "slice", "items": bounds}
        if isinstance(value, np.dtype):
            return {_TAG: "dtype", "value": value.str}
        if value in _SCALARS.values():
            return {_TAG: "type", "value": value.__name__}
        return self._write_estimator(value)

    def _write_array(self, array: NDArray[Any]) -> dict[str, Any]:
        if array.dtype.kind in _PLAIN_KINDS:
            name = f"{self.prefix}{len(self.arrays)}"
            # Columns that lie side by side in memory stay so: products round by their order.
            by_column = array.ndim == 2 and array.strides[0] < array.strides[1]
            array = array.T if by_column else array
            self.arrays[name] = np.ascontiguousarray(array)
            kind = "columns" if by_column else "array"
            return {_TAG: kind, "name": name, "shape": list(array.shape)}
        if array.dtype.kind not in "OU":
            raise ValueError(f"an array of type {array.dtype} cannot be saved: convert it first.")
        cells = [self.write(cell) for cell in array.ravel().tolist()]
        kind, shape = array.dtype.str, list(array.shape)
        return {_TAG: "cells", "dtype": kind, "shape": shape, "items": cells}

    def _write_estimator(self, value: Any) -> dict[str, Any]:
        name = type(value).__name__
        if TRANSFORMERS.get(name) is not type(value):
            raise ValueError(
                f"{name} cannot be saved in a model: use transformers among "
                f"{', '.join(TRANSFORMERS)}, without functions of your own."
            )
        items = {key: self.write(item) for key, item in vars(value).items()}
        return {_TAG: "transformer", "class": name, "attributes": items}


def _read(state: Any, arrays: Arrays) -> Any:
    if state is None or isinstance(state, str | bool | int):
        return state
    if isinstance(state, list):
        return [_read(item, arrays) for item in state]
    if not isinstance(state, dict):
        raise ValueError(f"a {type(state).__name__} in the preprocessing")
    kind = state[_TAG]
    if kind == "transformer":
        return _read_transformer(state, arrays)
    if kind in ("array", "columns"):
        # A copy, because what safetensors reads is neither writable nor aligned.
        array = np.array(arrays[state["name"]]).reshape(state["shape"])
        return array if kind == "array" else array.T
    if kind == "cells":
        return _read_cells(state, arrays)
    if kind == "scalar":
        return _read(state["value"], arrays)[()]
    if kind == "float":
        return float.fromhex(state["value"])
    if kind == "dtype":
        return np.dtype(str(state["value"]))
    if kind == "type":
        return _SCALARS[state["value"]]
    items = _read(state["items"], arrays)
    if kind == "dict":
        return {key: item for key, item in items}
    if kind in ("tuple", "slice"):
        return (tuple if kind == "tuple" else lambda bounds: slice(*bounds))(items)
    raise ValueError(f"{kind!r} in the preprocessing, which this version does not know")


def _read_cells(state: dict[str, Any], arrays: Arrays) -> NDArray[Any]:
    items = _read(state["items"], arrays)
    cells = np.empty(len(items), object)
    for i, item in enumerate(items):  # one by one, so that arrays stay whole
        cells[i] = item
    dtype = np.dtype(str(state["dtype"]))
    if dtype.kind not in "OU":
        raise ValueError(f"cells of type {dtype}")
    return cells.astype(dtype).reshape(state["shape"])


def _read_transformer(state: dict[str, Any], arrays: Arrays) -> BaseEstimator:
    name = state["class"]
    if name not in TRANSFORMERS:
        raise ValueError(f"the transformer {name!r}, which this version does not have")
    cls = TRANSFORMERS[name]
    attributes = {key: _read(item, arrays) for key, item in state["attributes"].items()}
    own = {key for key in attributes if key in dir(cls)}
    if own:
        raise ValueError(f"{name} with another {min(own)}")
    transformer = cls.__new__(cls)
    vars(transformer).update(attributes)
    return transformer
