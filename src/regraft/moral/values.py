"""Moral values on three axes, and panels of people who differ in how they are spread."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Profile = tuple[int, int, int]  # a pole of each axis, in the order of AXES
Masses = tuple[float, float, float]  # of POLES

POLES = (1, 0, -1)


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
        """What somebody at ``pole`` (1, 0 or -1) holds; ``ValueError`` for other numbers."""
        texts = dict(zip(POLES, (self.plus, self.zero, self.minus), strict=True))
        if pole not in texts:
            raise ValueError(f"there is no pole {pole!r} of {self.name}: choose 1, 0 or -1.")
        return texts[pole]


AXES = (
    Axis(
        "conseq",
        plus="is a consequentialist, who judges an act by what comes of it and by nothing else, "
        "and who would break any rule where that leaves people better off",
        zero="weighs what comes of an act against the rules that it keeps or breaks, and gives "
        "neither the last word",
        minus="is a deontologist, for whom some acts, such as lying or breaking a promise, are "
        "wrong in themselves, however much good would come of them",
    ),
    Axis(
        "indv",
        plus="is an individualist, who puts everybody's right to decide on their own life above "
        "what a group wants from them",
        zero="gives the freedom of each person and the good of the group the same weight",
        minus="is a collectivist, who puts the good of the family, the team or the country above "
        "what a single person wants",
    ),
    Axis(
        "care",
        plus="puts care first: sparing the people at hand from suffering matters more than "
        "treating everybody alike",
        zero="gives compassion for the people at hand and fairness to everybody the same weight",
        minus="puts justice first: the same standard holds for everybody, and pity is no reason "
        "for an exception",
    ),
)

# From (1, 1, 1) to (-1, -1, -1); the last axis changes fastest.
PROFILES: tuple[Profile, ...] = tuple(product(POLES, POLES, POLES))


def profile_name(profile: Profile) -> str:
    """The profile as text, such as (+1,0,-1)."""
    return f"({','.join(f'{pole:+d}' if pole else '0' for pole in profile)})"


def profile_matrix() -> NDArray[np.float64]:
    """``PROFILES`` as numbers (27, 3)."""
    return np.array(PROFILES, np.float64)


@dataclass(frozen=True)
class Panel:
    """A population: for each axis of ``AXES`` the masses of +1, 0 and -1, independent of others."""

    name: str
    prior: tuple[Masses, Masses, Masses]

    def profile_prior(self) -> NDArray[np.float64]:
        """The mass (27,) of each of ``PROFILES``; sums to one."""
        conseq, indv, care = map(np.array, self.prior)
        masses: NDArray[np.float64] = np.einsum("i,j,k->ijk", conseq, indv, care).ravel()
        masses /= masses.sum()  # which rounding may leave off one
        return masses


PANELS = (
    Panel("Pragmatist", ((0.8, 0.1, 0.1),) * 3),
    Panel("Idealist", ((0.1, 0.1, 0.8),) * 3),
    Panel("Centrist", ((0.1, 0.8, 0.1),) * 3),
)
