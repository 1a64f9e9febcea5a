"""Transplant basis L: tests whether it exists, and what keeping transplants near the data costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
import torch
from torch import Tensor

from regraft.core.closure import directed_hausdorff
from regraft.core.transplant import KernelReport, Transplant, kernel_condition
from regraft.premises.factorization import Factorization
from regraft.premises.verdicts import Verdict
from regraft.support.plain_data import PlainData

LAMBDAS = (0.0, 0.01, 0.1, 1.0, 10.0)
_MAX_SUPPORT_ROWS = 800  # distinct rows of a domain between which distances are taken
_MAX_SEARCHED_ROWS = 20_000  # rows among which to look for distinct ones
_PATH_POINTS = 40
_ZERO_CUTOFF = 1e-8


@dataclass(frozen=True)
class BasisPoint:
    """Transplant basis chosen under one weight of the Hausdorff penalty."""

    weight: float  # lambda_H
    residual: float  # root mean square over domains of |A_s^T L - P|_F, P = I up to the gauge
    residual_identity: float  # the same with I itself: 1 is the least that the gauge allows
    basis_norm: float  # |L|_F
    deduction_norm: float  # |D^T L|_F
    hausdorff: float  # sum over ordered pairs of domains (eq. `match`), in units of the features


@dataclass(frozen=True)
class TransplantBasis(PlainData):
    """Result of looking for an L with A_s^T L = I for all s and D^T L = 0 (`prop:L-exists`).

    A softmax ignores what is common to all groups, so A_s^T L can be I only up to the projection P
    onto differences of groups, and a transplant needs no more.
    """

    verdict: Verdict
    sentence: str
    rank: int  # of [A_1 ... A_K D]
    columns: int  # that are independent in general position; more than d never are
    kernel_residual: float  # relative; zero exactly when L exists
    points: tuple[BasisPoint, ...]


@dataclass(frozen=True)
class _System:
    """Conditions on L, in coordinates of the features, intercepts aside."""

    gauge: Tensor  # (r, r - 1) orthonormal basis of differences of groups
    abductions: Tensor  # (K, d, r - 1)
    deduction: Tensor  # (d, m)
    shifts: Tensor  # (r - 1, r - 1) mean of (A_s - A_t)^T w w^T (A_s - A_t) over rows and pairs


def check_basis(
    maps: Factorization,
    X: Sequence[Tensor],
    *,
    unseen: int = 0,
    lambdas: Sequence[float] = LAMBDAS,
) -> TransplantBasis:
    """Look for L among ``maps`` in coordinates of the features.

    ``X`` holds the rows (n_s, d) of each domain. ``unseen`` counts the groups that a domain has no
    rows of, summed over domains; the maps of such groups are equal and cannot be told apart. Along
    a path of bases with D^T L = 0 that trade biorthogonality for shorter moves, each weight in
    ``lambdas`` picks the one with the least sum of squared residuals plus weight times Hausdorff
    distances.
    """
    supports = [_distinct_rows(sample) for sample in X]
    system = _system(maps, supports)
    report = kernel_condition(list(system.abductions), system.deduction, tolerance=_ZERO_CUTOFF)
    path = [_measure(system, maps, supports, basis) for basis in _bases(system)]
    points = []
    for weight in lambdas:
        costs = [len(X) * point.residual**2 + weight * point.hausdorff for point in path]
        chosen = path[int(np.argmin(costs))]
        points.append(replace(chosen, weight=float(weight)))
    verdict: Verdict = "consistent" if report.holds else "violated"
    return TransplantBasis(
        verdict=verdict,
        sentence=_sentence(report, maps, points, unseen),
        rank=report.rank,
        columns=report.columns,
        kernel_residual=report.residual,
        points=tuple(points),
    )


def _distinct_rows(sample: Tensor) -> Tensor:
    """Return some of the distinct rows of a sample (n, d), drawn with a fixed seed."""
    generator = torch.Generator().manual_seed(0)
    some = torch.randperm(len(sample), generator=generator)[:_MAX_SEARCHED_ROWS]
    distinct = torch.unique(sample[some.to(sample.device)].double(), dim=0)
    order = torch.randperm(len(distinct), generator=generator)
    kept: Tensor = distinct[order[:_MAX_SUPPORT_ROWS].to(distinct.device)]
    return kept


def _system(maps: Factorization, supports: Sequence[Tensor]) -> _System:
    """Collect the conditions on L from ``maps``, and the mean squared moves on ``supports``."""
    r = maps.abductions.shape[2]
    # Orthonormal and orthogonal to the constant vector, which the gauge has removed.
    gauge = torch.linalg.svd(maps.abductions.new_ones(1, r))[2][1:].T
    shifts = []
    for s, t in permutations(range(len(supports)), 2):
        moves = _append_constant(supports[s]) @ (maps.abductions[s] - maps.abductions[t]) @ gauge
        shifts.append(moves.T @ moves / len(moves))
    mean = torch.stack(shifts).mean(dim=0) if shifts else gauge.T @ gauge
    contrasts = maps.deduction[..., 1:] - maps.deduction[..., :1]
    return _System(gauge, maps.abductions[:, :-1] @ gauge, contrasts[:-1].flatten(1), mean)


def _append_constant(X: Tensor) -> Tensor:
    return torch.cat([X, X.new_ones(len(X), 1)], dim=1)


def _bases(system: _System) -> list[Tensor]:
    """Return bases (d, r) with D^T L = 0, from exact biorthogonality to no move at all.

    They minimize the sum of |A_s^T L - P|^2 plus a rising weight times the mean squared move. In
    the singular vectors of the maps and of the moves, that is one division for each entry.
    """
    left, values, _ = torch.linalg.svd(system.deduction, full_matrices=True)
    rank = int((values > _ZERO_CUTOFF * values.max().clamp_min(1e-300)).sum())
    kernel = left[:, rank:]
    stacked = torch.cat([kernel.T @ abduction for abduction in system.abductions], dim=1)
    directions, sizes, outer = torch.linalg.svd(stacked, full_matrices=False)
    largest = float(sizes[0]) if len(sizes) else 0.0  # none: D reads every feature, or r is 1
    kept = sizes > _ZERO_CUTOFF * largest
    directions, sizes, outer = directions[:, kept], sizes[kept, None], outer[kept]
    width = system.gauge.shape[1]
    blocks = outer.reshape(len(outer), len(system.abductions), width)
    targets = blocks.sum(dim=1)  # W^T (I, ..., I)
    moves, rotation = torch.linalg.eigh(system.shifts)
    scale = largest**2 / max(float(moves.sum()), 1e-300)
    weights = [0.0, *(scale * np.logspace(-6, 3, _PATH_POINTS)).tolist()]
    return [
        kernel
        @ directions
        @ (sizes * (targets @ rotation) / (sizes.square() + weight * moves))
        @ rotation.T
        @ system.gauge.T
        for weight in weights
    ]


def _measure(
    system: _System, maps: Factorization, supports: Sequence[Tensor], basis: Tensor
) -> BasisPoint:
    projection = system.gauge @ system.gauge.T
    readouts = maps.abductions[:, :-1].mT @ basis
    identity = torch.eye(len(projection), dtype=basis.dtype, device=basis.device)
    padded = torch.cat([basis, basis.new_zeros(1, basis.shape[1])])
    distances = []
    for s, t in permutations(range(len(supports)), 2):
        transplant = Transplant(padded, maps.abductions[s], maps.abductions[t])
        moved = transplant(_append_constant(supports[s]))[:, :-1]
        distances.append(directed_hausdorff(moved, supports[t]))
    return BasisPoint(
        weight=0.0,
        residual=_root_mean_square(readouts - projection),
        residual_identity=_root_mean_square(readouts - identity),
        basis_norm=float(torch.linalg.matrix_norm(basis)),
        deduction_norm=float(torch.linalg.matrix_norm(system.deduction.T @ basis)),
        hausdorff=float(sum(distances)),
    )


def _root_mean_square(matrices: Tensor) -> float:
    return float(torch.linalg.matrix_norm(matrices).square().mean().sqrt())


def _sentence(
    report: KernelReport, maps: Factorization, points: Sequence[BasisPoint], unseen: int
) -> str:
    d = maps.abductions.shape[1] - 1
    if not report.holds:
        cause = (
            f"some domain has no rows of some group ({unseen} in all): add rows or merge groups"
            if unseen and report.columns <= d
            else "use fewer groups or more features"
        )
        return (
            f"No transplant basis exists: the maps have {report.columns} columns, of rank "
            f"{report.rank} in {d} features (residual {report.residual:.1e}); {cause}."
        )
    first, last = points[0], points[-1]
    norm = max(point.deduction_norm for point in points)
    return (
        f"A transplant basis exists ({report.columns} columns in {d} features), with a norm of "
        f"D^T L below {max(norm, 1e-16):.0e}; a penalty of {last.weight:g} brings transplants from "
        f"Hausdorff distances of {first.hausdorff:.3g} in all to {last.hausdorff:.3g}, at a "
        f"residual of {last.residual:.2g}."
    )
