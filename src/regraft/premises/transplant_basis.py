"""Transplant basis L: tests whether it exists, and what keeping transplants near the data costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import torch
from torch import Tensor

from regraft.core.decompositions import eigh, svd
from regraft.core.transplant import KernelReport, kernel_condition
from regraft.premises.factorization import Factorization, read_out
from regraft.premises.verdicts import Verdict
from regraft.support.plain_data import PlainData

LAMBDAS = (0.0, 0.01, 0.1, 1.0, 10.0)
_MAX_SUPPORT_ROWS = 800  # distinct rows of a domain between which distances are taken
_MAX_DISTANCES = 8_000_000  # between rows of all pairs of domains
_MAX_SEARCHED_ROWS = 20_000  # rows among which to look for distinct ones
_ZERO_CUTOFF = 1e-8
# The search for the basis of a weight.
_ROUNDS = 12  # new matches of rows, at most
_STEPS = 5  # weighted least-squares problems in each round
_LEAST_GAIN = 1e-5  # share of the cost that a round must gain
_SHARPNESS = 4  # power of the distances by which far rows gain weight
_LEAST_SHARE = 1e-3  # of the weight, spread over all rows so that none is forgotten


@dataclass(frozen=True)
class BasisPoint:
    """Transplant basis chosen under one weight of the Hausdorff penalty.

    Residuals are root mean squares over the abductions A of all domains and of the target.
    """

    weight: float  # lambda_H
    residual: float  # |A^T L - P|_F, P = I up to the gauge
    residual_identity: float  # |A^T L - I|_F: 1 is the least that the gauge allows
    basis_norm: float  # |L|_F
    deduction_norm: float  # |D^T L|_F
    hausdorff: float  # sum over ordered pairs of domains (eq. `match`), in units of the features


@dataclass(frozen=True)
class TransplantBasis(PlainData):
    """Result of looking for an L with A_s^T L = I for all s, the target too, and D^T L = 0.

    This is `prop:L-exists`. A target in the affine hull of the sources adds no condition.

    A softmax ignores what is common to all groups, so A_s^T L can be I only up to the projection P
    onto differences of groups, and a transplant needs no more.
    """

    verdict: Verdict
    sentence: str
    rank: int  # of [A_1 ... A_K D], with the target's A if it was given
    columns: int  # that are independent in general position; more than d never are
    kernel_residual: float  # relative; zero exactly when L exists
    points: tuple[BasisPoint, ...]


@dataclass(frozen=True)
class _Moves:
    """Rows on their way to another domain, by a basis (d, r - 1) in the gauge."""

    rows: Tensor  # (n, d)
    steps: Tensor  # (n, r - 1) (A_s - A_t)^T w
    support: Tensor  # (m, d) of the other domain
    squares: Tensor  # (n, m) squared distances between the two, before the rows are moved

    def gaps(self, basis: Tensor) -> Tensor:
        """Return the differences (n, d) of unmoved rows and what they are nearest to when moved."""
        # Squared distances after the move, but for what is the same along the support.
        squares = self.squares - 2 * self.steps @ (self.support @ basis).mT
        return self.rows - self.support[squares.argmin(dim=1)]

    def distances(self, gaps: Tensor, basis: Tensor) -> Tensor:
        """Return the distances (n,) of the moved rows to what ``gaps`` matches them with."""
        lengths: Tensor = torch.linalg.vector_norm(gaps + self.steps @ basis.mT, dim=1)
        return lengths


@dataclass(frozen=True)
class _System:
    """Conditions on L, in coordinates of the features and in the gauge, intercepts aside."""

    gauge: Tensor  # (r, r - 1) orthonormal basis of differences of groups
    abductions: Tensor  # (K + 1, d, r - 1), the target's last
    deduction: Tensor  # (d, m)
    read: Tensor  # (d, k) orthonormal basis of what the deduction reads
    directions: Tensor  # (d, l) orthonormal basis of what abductions read beyond that
    sizes: Tensor  # (l, 1) squared singular values of the abductions along the directions
    targets: Tensor  # (l, r - 1) their sum along the directions
    moves: tuple[_Moves, ...]  # of all ordered pairs of sources

    def solve(self, pull: Tensor, spread: Tensor) -> Tensor:
        """Return the basis B (d, r - 1) with D^T B = 0 that minimizes a quadratic cost.

        This is the sum of |A_s^T B - I|^2, plus tr(B spread B^T) + 2 tr(B^T pull). In the singular
        vectors of the abductions and the eigenvectors of the spread, it is one division for each
        entry. Along what no abduction reads, B is free to follow the pull; what neither asks for
        stays zero.
        """
        values, rotation = eigh(spread)
        values = values.clamp_min(0)
        bound = (self.targets - self.directions.mT @ pull) @ rotation / (self.sizes + values)
        free = (pull - self.directions @ (self.directions.mT @ pull)) @ rotation
        moving = values > _ZERO_CUTOFF * values.sum()
        rotated = self.directions @ bound
        rotated[:, moving] -= free[:, moving] / values[moving]
        basis: Tensor = (rotated - self.read @ (self.read.mT @ rotated)) @ rotation.mT
        return basis


def check_basis(
    maps: Factorization,
    X: Sequence[Tensor],
    *,
    target: Tensor | None = None,
    unseen: int = 0,
    lambdas: Sequence[float] = LAMBDAS,
) -> TransplantBasis:
    """Look for L among ``maps`` in coordinates of the features.

    ``X`` holds the rows (n_s, d) of each domain. ``target`` is the abduction A_star (d + 1, r) of
    the target; None takes the mean of the sources', the centre of their affine hull, which adds
    no condition. ``unseen`` counts the groups that a domain has no rows of, summed
    over domains; the maps of such groups are equal and cannot be told apart. Each weight in
    ``lambdas`` has the L with D^T L = 0 that was found to minimize the sum of squared residuals
    plus weight times Hausdorff distances. The distances are not convex in L, so it may be a local
    minimum; no weight has a basis that is worse for it than another one's. Without a weight, L is
    the solution of least norm.
    """
    pairs = max(len(X) * (len(X) - 1), 1)
    most = min(_MAX_SUPPORT_ROWS, math.isqrt(_MAX_DISTANCES // pairs))
    system = _system(maps, [_distinct_rows(sample, most) for sample in X], target)
    tested = system.abductions[:-1] if target is None else system.abductions
    report = kernel_condition(list(tested), system.deduction, tolerance=_ZERO_CUTOFF)
    width = system.gauge.shape[1]
    none = system.directions.new_zeros(len(system.deduction), width)
    basis = system.solve(none, none.new_zeros(width, width))
    # Weights start at each other's answers; to move nothing at all is an answer as well.
    found = [_measure(system, basis), _measure(system, none)]
    for weight in sorted(set(lambdas) - {0.0}):
        searched = _search(system, weight, basis)
        basis = min(searched, key=lambda pair: _cost(system, pair[1], weight))[0]
        found += [point for _, point in searched]
    points = [
        replace(
            found[0] if weight == 0 else min(found, key=lambda p: _cost(system, p, weight)),
            weight=float(weight),
        )
        for weight in lambdas
    ]
    verdict: Verdict = "consistent" if report.holds else "violated"
    return TransplantBasis(
        verdict=verdict,
        sentence=_sentence(report, maps, points, unseen),
        rank=report.rank,
        columns=report.columns,
        kernel_residual=report.residual,
        points=tuple(points),
    )


def _cost(system: _System, point: BasisPoint, weight: float) -> float:
    return len(system.abductions) * point.residual**2 + weight * point.hausdorff


def _distinct_rows(sample: Tensor, most: int) -> Tensor:
    """Return up to ``most`` of the distinct rows of a sample (n, d), drawn with a fixed seed."""
    generator = torch.Generator().manual_seed(0)
    some = torch.randperm(len(sample), generator=generator)[:_MAX_SEARCHED_ROWS]
    distinct = torch.unique(sample[some.to(sample.device)].double(), dim=0)
    order = torch.randperm(len(distinct), generator=generator)
    kept: Tensor = distinct[order[:most].to(distinct.device)]
    return kept


def _system(maps: Factorization, supports: Sequence[Tensor], target: Tensor | None) -> _System:
    """Collect the conditions on L from ``maps`` and ``target``, and the rows to move."""
    star = maps.abductions.mean(dim=0) if target is None else target.to(maps.abductions)
    # Orthonormal and orthogonal to the constant vector, which the gauge has removed.
    gauge = svd(star.new_ones(1, star.shape[1]), full_matrices=True)[2][1:].T
    sources = maps.abductions @ gauge
    abductions = torch.cat([sources, (star @ gauge)[None]])[:, :-1]
    contrasts = maps.deduction[..., 1:] - maps.deduction[..., :1]
    deduction = contrasts[:-1].flatten(1)
    read, _, _ = _reduce(deduction, deduction)
    stacked = torch.cat(list(abductions), dim=1)
    directions, values, outer = _reduce(stacked - read @ (read.mT @ stacked), stacked)
    blocks = outer.reshape(len(outer), len(abductions), gauge.shape[1])
    moves = []
    for s, t in permutations(range(len(supports)), 2):
        squares = torch.cdist(supports[s], supports[t]).square()
        steps = read_out(supports[s], sources[s] - sources[t])
        moves.append(_Moves(supports[s], steps, supports[t], squares))
    return _System(
        gauge,
        abductions,
        deduction,
        read,
        directions,
        values[:, None].square(),
        values[:, None] * blocks.sum(dim=1),
        tuple(moves),
    )


def _reduce(matrix: Tensor, whole: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the singular vectors and values of ``matrix`` that are not zero beside ``whole``."""
    left, values, right = svd(matrix, full_matrices=False)
    kept = values > _ZERO_CUTOFF * torch.linalg.matrix_norm(whole)
    return left[:, kept], values[kept], right[kept]


def _search(system: _System, weight: float, basis: Tensor) -> list[tuple[Tensor, BasisPoint]]:
    """Return bases of ever less cost, from ``basis`` on, and what each of them costs.

    With the nearest rows given, the cost is convex in L, and its maximum over the rows is that of
    a mean with the worst weights. These rise where rows are far (Lawson's iteration), and for given
    weights L has a closed form.
    """
    shares = [move.rows.new_full((len(move.rows),), 1 / len(move.rows)) for move in system.moves]
    found: list[tuple[Tensor, BasisPoint]] = []
    for _ in range(_ROUNDS):
        gaps = [move.gaps(basis) for move in system.moves]
        for _ in range(_STEPS):
            pull, spread = torch.zeros_like(basis), basis.new_zeros(basis.shape[1], basis.shape[1])
            for i, (move, gap) in enumerate(zip(system.moves, gaps, strict=True)):
                distances = move.distances(gap, basis)
                largest = distances.max().clamp_min(1e-300)
                share = shares[i] * (distances / largest) ** _SHARPNESS
                share = share / share.sum().clamp_min(1e-300)
                shares[i] = (1 - _LEAST_SHARE) * share + _LEAST_SHARE / len(share)
                # Half the square of a distance, over the largest one, has the slope of that one.
                weighted = (weight / 2 / largest * shares[i])[:, None] * move.steps
                pull, spread = pull + gap.mT @ weighted, spread + move.steps.mT @ weighted
            basis = system.solve(pull, spread)
        found.append((basis, _measure(system, basis)))
        if len(found) > 1:
            before, now = (_cost(system, point, weight) for _, point in found[-2:])
            if now > (1 - _LEAST_GAIN) * before:
                break
    return found


def _measure(system: _System, basis: Tensor) -> BasisPoint:
    """Measure a basis (d, r - 1) in the gauge."""
    readouts = system.gauge @ system.abductions.mT @ basis @ system.gauge.mT
    identity = torch.eye(len(system.gauge)).to(readouts)
    distances = (move.distances(move.gaps(basis), basis) for move in system.moves)
    return BasisPoint(
        weight=0.0,
        residual=_root_mean_square(readouts - system.gauge @ system.gauge.mT),
        residual_identity=_root_mean_square(readouts - identity),
        basis_norm=float(torch.linalg.matrix_norm(basis)),
        deduction_norm=float(torch.linalg.matrix_norm(system.deduction.mT @ basis)),
        hausdorff=sum(float(each.max()) for each in distances),
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
