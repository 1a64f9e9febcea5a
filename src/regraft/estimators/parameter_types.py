"""The types of parameters: numbers, lists of numbers, and lists of names."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import signature
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

# Lists are checked where reports are read, which need not wait for scikit-learn.
if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

_NUMBERS: dict[str, tuple[type, str]] = {
    "float": (Real, "a number"),
    "int": (Integral, "a whole number"),
}


def check_numbers(model: BaseEstimator) -> None:
    """Raise ``ValueError`` for a parameter that should be a number, and is none."""
    stated = signature(type(model)).parameters
    for name, value in model.get_params(deep=False).items():
        text, *others = str(stated[name].annotation).split(" | ")
        if text not in _NUMBERS or (value is None and "None" in others):
            continue
        kind, words = _NUMBERS[text]
        if not isinstance(value, kind) or isinstance(value, bool | np.bool_):
            or_none = " or None" if "None" in others else ""
            raise ValueError(f"{name} is {value!r}: pass {words}{or_none}.")


def sort_numbers(values: Iterable[float], name: str) -> list[float]:
    """Return the numbers of a list once each, sorted; raise ``ValueError`` if it is none."""
    try:
        if isinstance(values, str):
            raise TypeError
        return sorted({float(value) for value in values})
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {values!r}: pass a list of numbers.") from None


def check_names(values: object, name: str) -> None:
    """Raise ``ValueError`` for a text, or what is no list, where names are listed."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(f"{name} is {values!r}: pass a list of names.")
