"""Families of plausible domains, and which settings belong to which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

Family = Literal["latent", "hull", "factorized"]
# Settings that only some families have, with the values that leave them alone.
_LATENT: tuple[Family, ...] = ("latent",)
_HULLS: tuple[Family, ...] = ("hull", "factorized")
_OWN_SETTINGS: dict[str, tuple[tuple[Family, ...], Any]] = {
    "prior_shift": (_LATENT, None),
    "prior_shifts": (_LATENT, None),
    "class_groups": (_LATENT, False),
    "radius": (_HULLS, None),
    "radii": (_HULLS, None),
    "objective": (_HULLS, "risk"),
    "rank": (("hull",), None),
    "surrogate": (("hull",), "reweighted"),
    "n_groups": (("factorized",), 2),
}


def check_family(family: str) -> None:
    """Raise ``ValueError`` unless ``family`` is a family of plausible domains."""
    if family not in get_args(Family):
        names = ", ".join(get_args(Family)[:-1])
        raise ValueError(
            f"family (--family) is {family!r}: pass {names} or {get_args(Family)[-1]}."
        )


def check_settings(family: str, settings: Mapping[str, Any], *, frozen: bool = False) -> None:
    """Raise ``ValueError`` if ``settings`` holds one of another family than ``family``.

    Where the predictor is ``frozen``, the family may be "free".
    """
    if not (frozen and family == "free"):
        check_family(family)
    for name, (owners, neutral) in _OWN_SETTINGS.items():
        if family not in owners and settings.get(name, neutral) != neutral:
            raise ValueError(
                f'{name} is a setting of family="{owners[0]}", and the family is "{family}": pass '
                f'family="{owners[0]}", or leave {name} out.'
            )
