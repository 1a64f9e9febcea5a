"""Checks of the settings of CROClassifier."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from regraft.core.group_targets import check_prior_shift
from regraft.core.heads import check_ridge
from regraft.core.hull import check_objective, check_radius
from regraft.core.surrogates import check_surrogate
from regraft.estimators.families import check_settings
from regraft.estimators.row_weights import check_class_weight
from regraft.premises.factorized_targets import check_n_groups

_FAR = 3.0  # a radius of so many default ones gets a warning


def check_cro_settings(settings: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` with one sentence if a setting is wrong or of another family."""
    check_objective(settings["objective"])
    check_surrogate(settings["surrogate"])
    check_settings(settings["family"], settings)
    if settings["radius"] is not None:
        check_radius(settings["radius"])
    check_prior_shift(settings["prior_shift"])
    check_n_groups(settings["n_groups"])
    check_ridge(settings["ridge"])
    check_class_weight(settings["class_weight"])
    if settings["class_groups"] not in (False, True):
        raise ValueError(f"class_groups is {settings['class_groups']!r}: pass True or False.")
    if not settings["tolerance"] > 0:
        raise ValueError(f"tolerance is {settings['tolerance']}: pass a positive number of nats.")
    if settings["max_rounds"] < 2:
        raise ValueError(
            f"max_rounds is {settings['max_rounds']}: the game needs 2 rounds or more."
        )


def warn_if_far(radius: float, supported: float) -> None:
    """Warn of a ``radius`` that is far larger than the one that the sources support."""
    if radius > _FAR * supported:
        warnings.warn(
            f"a radius of {radius:g} nats is {radius / max(supported, 1e-3):.0f} times what "
            f"the sources support ({supported:.2g} nats): they say nothing about domains that "
            "far away, so lower it unless you know that such domains occur.",
            stacklevel=5,
        )
