"""Families of plausible domains, and which settings belong to which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

Family = Literal["latent", "hull"]
# Settings that only one family has, with the values that leave them alone.
_OWN_SETTINGS: dict[Family, dict[str, Any]] = {
    "latent": {"prior_shift": None, "prior_shifts": None, "class_groups": False},
    "hull": {
        **{"radius": None, "radii": None, "rank": None},
        **{"objective": "risk", "surrogate": "reweighted"},
    },
}


def check_family(family: str) -> None:
    """Raise ``ValueError`` unless ``family`` is a family of plausible domains."""
    if family not in get_args(Family):
        raise ValueError(f"family (--family) is {family!r}: pass {' or '.join(get_args(Family))}.")


def check_settings(family: str, settings: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` if ``settings`` holds one of another family than ``family``."""
    check_family(family)
    for owner, own in _OWN_SETTINGS.items():
        for name, neutral in own.items():
            if owner != family and settings.get(name, neutral) != neutral:
                raise ValueError(
                    f'{name} is a setting of family="{owner}", and the family is "{family}": pass '
                    f'family="{owner}", or leave {name} out.'
                )
