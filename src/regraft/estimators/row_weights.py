"""Weights of rows: those that ``fit`` is given, times those of the classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

ClassWeight = Mapping[Any, float] | str | None


def check_class_weight(class_weight: ClassWeight) -> None:
    """Raise ``ValueError`` unless ``class_weight`` is None, "balanced" or a mapping."""
    if isinstance(class_weight, Mapping):
        for label, weight in class_weight.items():
            if not 0 < weight < np.inf:
                raise ValueError(
                    f"class_weight of class {label!s} is {weight}: pass positive numbers."
                )
    elif class_weight not in (None, "balanced"):
        raise ValueError(
            f'class_weight is {class_weight!r}: pass None, "balanced" or a mapping of classes to '
            "weights."
        )


def check_sample_weight(sample_weight: ArrayLike | None, n_rows: int) -> NDArray[np.float64]:
    """Return the weights (n,) of rows, ones by default, or raise ``ValueError``."""
    if sample_weight is None:
        return np.ones(n_rows)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weight.shape}: pass one weight for each of {n_rows} rows."
        )
    if not np.isfinite(weight).all() or weight.min() < 0:
        raise ValueError("sample_weight holds negative, NaN or infinite values: pass weights.")
    if not weight.any():
        raise ValueError("sample_weight is zero in every row: pass some positive weights.")
    return weight


def weigh_classes(
    weight: NDArray[np.float64], class_weight: ClassWeight, y: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the weights (n,) of rows times those of their classes.

    "balanced" gives every class the same sum; a mapping leaves classes that it does not name alone.
    """
    check_class_weight(class_weight)
    if class_weight is None:
        return weight
    classes, index = np.unique(y, return_inverse=True)
    if isinstance(class_weight, Mapping):
        unknown = [str(label) for label in class_weight if label not in classes.tolist()]
        if unknown:
            raise ValueError(
                f"class_weight names the class {unknown[0]}, of which there are no rows: the "
                f"classes are {', '.join(map(str, classes))}."
            )
        factors = np.array([class_weight.get(label, 1.0) for label in classes.tolist()])
    else:
        factors = weight.sum() / (len(classes) * np.bincount(index, weights=weight))
    weighted: NDArray[np.float64] = weight * factors[index]
    return weighted
