"""Abduction maps: tests whether they differ between domains, and angles between their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import subspace_angles
from torch import Tensor

from regraft.core.decompositions import svd, svdvals
from regraft.premises.factorization import GroupedRows
from regraft.premises.multinomial_maps import OutcomeData, fit_map
from regraft.premises.randomization import DRAWS, Randomization, crossfit_residuals, pooled_test
from regraft.premises.verdicts import LEVEL, Verdict, format_p_value
from regraft.support.plain_data import PlainData

_ZERO_CUTOFF = 1e-8  # singular values of a map below this share of the largest are zero


@dataclass(frozen=True)
class AnglePair:
    """Principal angles between the column spaces of two abduction maps, in degrees."""

    first: str
    second: str
    smallest: float
    median: float
    largest: float


@dataclass(frozen=True)
class AbductionAngles(PlainData):
    """Result of comparing P^s(u | x) between domains, with the angles between the col(A_s).

    ``halves_apart`` compares half the rows of one domain to half of another. ``halves_together``
    compares the two halves of the same domain: the angle that noise alone makes for so many rows.
    """

    verdict: Verdict
    sentence: str
    p_value: float  # for "U is independent of the domain given the input", by redrawing domains
    pairs: tuple[AnglePair, ...]
    stable_ranks: dict[str, float]  # |A_s|_F^2 / |A_s|_2^2
    halves_apart: float  # median angle in degrees
    halves_together: float

    @property
    def median(self) -> float:
        """Mean of the pairs' median angles, in degrees."""
        return float(np.mean([pair.median for pair in self.pairs]))


def check_angles(
    rows: GroupedRows,
    abductions: Tensor,
    *,
    penalty: float,
    names: Sequence[str],
    draws: int = DRAWS,
    seed: int = 0,
) -> AbductionAngles:
    """Compare the maps ``abductions`` (K, k, r) of the domains, fitted with ``penalty``."""
    test = abduction_test(rows, penalty, draws=draws, seed=seed)
    maps = rows.whitening.to_features(abductions.mT).mT
    described = describe_angles(maps, names)
    halves = [_fit_half(rows, penalty, abductions, half) for half in (0, 1)]
    together = [_angles(one, other) for one, other in zip(*halves, strict=True)]
    apart = [_angles(halves[0][s], halves[1][t]) for s, t in permutations(range(len(names)), 2)]
    medians = [float(np.median(np.concatenate(angles))) for angles in (apart, together)]
    found = test.has_enough_rows and test.p_value <= LEVEL
    verdict: Verdict = "consistent" if found else "undecided"
    return replace(
        described,
        verdict=verdict,
        sentence=_sentence(test, *medians),
        p_value=test.p_value,
        halves_apart=medians[0],
        halves_together=medians[1],
    )


def describe_angles(maps: Tensor, names: Sequence[str]) -> AbductionAngles:
    """Measure angles between abductions (K, d + 1, r) on features, for groups never observed."""
    slopes = maps[:, :-1]
    spaces = [column_space(abduction) for abduction in slopes]
    named = combinations(zip(names, spaces, strict=True), 2)
    pairs = tuple(_pair(s, t, one, other) for (s, one), (t, other) in named)
    median = float(np.mean([pair.median for pair in pairs]))
    return AbductionAngles(
        verdict="undecided",
        sentence=f"The fitted abductions of two domains are {median:.0f}° apart in the median; "
        "whether that is more than noise cannot be tested without the groups of the rows.",
        p_value=float("nan"),
        pairs=pairs,
        stable_ranks={n: stable_rank(a) for n, a in zip(names, slopes, strict=True)},
        halves_apart=float("nan"),
        halves_together=float("nan"),
    )


def abduction_test(
    rows: GroupedRows, penalty: float, *, draws: int = DRAWS, seed: int = 0
) -> Randomization:
    """Test whether P(u | x) is the same in every domain."""
    data = OutcomeData(rows.Z, rows.group, rows.n_groups)
    residuals = crossfit_residuals(data, penalty)
    return pooled_test(rows, residuals, draws=draws, seed=seed)


def column_space(slopes: Tensor) -> Tensor:
    """Return an orthonormal basis (d, rank) of the columns of a map (d, r)."""
    left, values, _ = svd(slopes, full_matrices=False)
    basis: Tensor = left[:, values > _ZERO_CUTOFF * values[0]]
    return basis


def stable_rank(matrix: Tensor) -> float:
    """Return the squared Frobenius norm over the squared operator norm; 0 for a zero matrix."""
    values = svdvals(matrix).square()
    return float(values.sum() / values[0]) if float(values[0]) > 0 else 0.0


def _fit_half(rows: GroupedRows, penalty: float, starts: Tensor, half: int) -> list[Tensor]:
    """Return the column spaces of the domains' maps, fitted to every other row."""
    spaces = []
    for data, start in zip(rows.groups_by_domain(), starts.mT, strict=True):
        own = torch.arange(len(data.labels), device=data.labels.device) % 2 == half
        fitted = rows.whitening.to_features(fit_map(data.take(own), penalty, start=start))
        spaces.append(column_space(fitted[:, :-1].T))
    return spaces


def _angles(one: Tensor, other: Tensor) -> NDArray[np.float64]:
    """Return principal angles in degrees; none if either space is that of a constant map."""
    if not one.shape[1] or not other.shape[1]:
        return np.zeros(0)
    angles: NDArray[np.float64] = subspace_angles(one.cpu().numpy(), other.cpu().numpy())
    return np.degrees(angles)


def _pair(first: str, second: str, one: Tensor, other: Tensor) -> AnglePair:
    angles = _angles(one, other)
    if not len(angles):
        return AnglePair(first, second, 0.0, 0.0, 0.0)
    return AnglePair(
        first, second, float(angles.min()), float(np.median(angles)), float(angles.max())
    )


def _sentence(test: Randomization, apart: float, together: float) -> str:
    p = format_p_value(test.p_value, test.draws)
    if not test.has_enough_rows:
        return f"The domains share too few inputs to compare their abductions ({test.overlap})."
    if test.p_value > LEVEL:
        return (
            f"No difference between the domains' abductions was found ({p}), so there is little "
            "for transplants to swap."
        )
    return (
        f"The domains differ in their abductions ({p}); the column spaces of two domains are "
        f"{apart:.0f}° apart in the median, those of two halves of one domain {together:.0f}°."
    )
