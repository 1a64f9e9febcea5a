"""Moral values on three axes, and panels of people whose values are spread differently."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from regraft.support.data_files import read_toml

Profile = tuple[int, int, int]  # a pole of each axis, in the order of AXES
Masses = tuple[float, float, float]  # of POLES

POLES = (1, 0, -1)

_DATA = read_toml(__package__, "values.toml")


@dataclass(frozen=True)
class Axis:
    """One question on which people's values differ.

    ``plus``, ``zero`` and ``minus`` complete "This person ..." for somebody at +1, 0 and -1.
    """

    name: str
    plus: str
    zero: str
    minus: str

    def describe(self, pole: int) -> str:
        """Say what somebody at ``pole`` (1, 0 or -1) holds; ``ValueError`` for other numbers."""
        texts = dict(zip(POLES, (self.plus, self.zero, self.minus), strict=True))
        if pole not in texts:
            raise ValueError(f"there is no pole {pole!r} of {self.name}: choose 1, 0 or -1.")
        return texts[pole]


AXES = tuple(Axis(**axis) for axis in _DATA["axes"])
# From (1, 1, 1) to (-1, -1, -1); the last axis changes fastest.
PROFILES: tuple[Profile, ...] = tuple(product(POLES, POLES, POLES))


def profile_name(profile: Profile) -> str:
    """Format the profile, such as (+1,0,-1)."""
    return f"({','.join(f'{pole:+d}' if pole else '0' for pole in profile)})"


def profile_matrix() -> NDArray[np.float64]:
    """Return ``PROFILES`` as numbers (27, 3)."""
    return np.array(PROFILES, np.float64)


@dataclass(frozen=True)
class Panel:
    """A population: the shares of +1, 0 and -1 on each axis of ``AXES``, axes independent."""

    name: str
    prior: tuple[Masses, Masses, Masses]

    def profile_prior(self) -> NDArray[np.float64]:
        """Compute the share (27,) of each of ``PROFILES``; they sum to one."""
        conseq, indv, care = map(np.array, self.prior)
        masses: NDArray[np.float64] = np.einsum("i,j,k->ijk", conseq, indv, care).ravel()
        masses /= masses.sum()  # which rounding may leave off one
        return masses


PANELS = tuple(
    Panel(panel["name"], (tuple(panel["conseq"]), tuple(panel["indv"]), tuple(panel["care"])))
    for panel in _DATA["panels"]
)
