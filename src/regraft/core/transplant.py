"""The algebra of representation transplants.

Shapes: K sources, d coordinates, r transplant dimension, C classes. Points are rows. Where heads
are involved a point is phi-tilde = [phi, 1], so d counts the constant coordinate and the last
column of a head is its intercept. Tensors are float64, all on one device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regraft.core.decompositions import pinv, svd

_TOLERANCE = 1e-8  # relative, for what counts as zero


@dataclass(frozen=True)
class KernelReport:
    """Verdict of `prop:L-exists` on M = [A_1 ... A_K A_star D]."""

    rank: int  # numerical rank of M
    columns: int  # number of columns of M; rank == columns is the sufficient condition
    residual: float  # relative, of the least-squares basis; zero exactly when a basis exists
    holds: bool  # whether the residual is within the tolerance
    solution_dimension: int  # r (d - rank), of the affine set of bases; -1 if the condition fails


@dataclass(frozen=True)
class BasisSet:
    """All transplant bases of one system: `particular + directions @ coefficients`."""

    particular: Tensor  # (d, r) the basis of least norm
    directions: Tensor  # (d, k) orthonormal basis of ker M^T

    @property
    def dimension(self) -> int:
        """Dimension r k of the affine set (`rem:L-underdet`)."""
        return self.particular.shape[1] * self.directions.shape[1]

    def member(self, coefficients: Tensor) -> Tensor:
        """Return the basis (d x r) with the given coordinates (k x r)."""
        return self.particular + self.directions @ coefficients


@dataclass(frozen=True)
class Transplant:
    """Operator T = I + L (A_s - A_s')^T of eq. `rep-transport-map`."""

    basis: Tensor  # (d, r) L
    source: Tensor  # (d, r) A_s
    target: Tensor  # (d, r) A_s'

    def __call__(self, rows: Tensor) -> Tensor:
        """Transplant every row (n x d), at cost O(n d r)."""
        return rows + (rows @ (self.source - self.target)) @ self.basis.mT

    def inverse(self) -> Transplant:
        """Return T_{s'->s}, which inverts T when A_s^T L = A_s'^T L (`lem:multi-bio`)."""
        return Transplant(basis=self.basis, source=self.target, target=self.source)

    def matrix(self) -> Tensor:
        """Return T itself (d x d), which acts on column vectors."""
        identity = torch.eye(self.basis.shape[0], dtype=self.basis.dtype, device=self.basis.device)
        return identity + self.basis @ (self.source - self.target).mT

    def determinant(self) -> float:
        """Return det T, from the r x r determinant of Sylvester's identity."""
        identity = torch.eye(self.basis.shape[1], dtype=self.basis.dtype, device=self.basis.device)
        return float(torch.linalg.det(identity + (self.source - self.target).mT @ self.basis))


@dataclass(frozen=True)
class Witness:
    """Transplants behind a target head, with the residuals of the conditions on them.

    With Q (C x r) the class directions on which the heads differ, the gauge-fixed heads factor
    as W_s = D^T + Q A_s^T: a shared deduction and a domain's own abduction, added as logits.
    """

    basis: Tensor  # (d, r) L; its last row is zero
    target: Tensor  # (d, r) A_star
    sources: Tensor  # (K, d, r) A_1 ... A_K
    deduction: Tensor  # (d, C) D
    fit_residual: float  # largest relative error of W_star T_{s->star} = W_s, (P4) in logits
    biorthogonality_residual: float  # largest entry of A_s^T L - I (star included) and D^T L: (P5)
    rank: int  # transplant dimension r <= C - 1; zero when all heads are equal

    def transplant(self, source: int, target: int | None = None) -> Transplant:
        """Return T from one source to another, or to the target when `target` is None."""
        abduction = self.target if target is None else self.sources[target]
        return Transplant(basis=self.basis, source=self.sources[source], target=abduction)

    def in_features(self, mean: Tensor, scale: float) -> Witness:
        """Return the witness for rows [x, 1], given this one for rows [(x - mean) / scale, 1]."""

        def readout(maps: Tensor) -> Tensor:
            features = maps[..., :-1, :] / scale
            constant = maps[..., -1:, :] - (mean @ features).unsqueeze(-2)
            return torch.cat([features, constant], dim=-2)

        return replace(
            self,
            basis=self.basis * scale,
            target=readout(self.target),
            sources=readout(self.sources),
            deduction=readout(self.deduction),
        )


def kernel_condition(
    abductions: Sequence[Tensor], deduction: Tensor, *, tolerance: float = _TOLERANCE
) -> KernelReport:
    """Decide whether a transplant basis exists (`prop:L-exists`).

    `abductions` are A_1, ..., A_K, A_star (d, r) and `deduction` is D (d, m), where m may be zero.
    Singular values of M up to `tolerance` times the largest count as zero, so a system that only an
    enormous basis solves is reported as failing. The residual must be within `tolerance`, too.
    """
    return _solve_system(abductions, deduction, tolerance)[0]


def transplant_bases(abductions: Sequence[Tensor], deduction: Tensor) -> BasisSet:
    """Return every L with A_s^T L = I for all s and D^T L = 0 (eq. `transplant-basis`).

    The arguments are those of `kernel_condition`. If no such L exists, `ValueError` is raised.
    """
    report, bases = _solve_system(abductions, deduction, _TOLERANCE)
    if not report.holds:
        raise ValueError(
            f"no transplant basis exists (relative residual {report.residual:.2e}): lower the "
            "transplant dimension, or choose abductions and a deduction with independent columns"
        )
    return bases


def nearest_basis(abductions: Sequence[Tensor], deduction: Tensor) -> Tensor:
    """Return the L (d, r) of least norm that meets the conditions of a basis in least squares."""
    return _solve_system(abductions, deduction, _TOLERANCE)[1].particular


def decompose(rows: Tensor, basis: Tensor, abduction: Tensor) -> tuple[Tensor, Tensor]:
    """Split rows (n x d) into W_A = L A^T w and W_D = w - W_A (eq. `phi-decomp`).

    `abduction` is any A with A^T L = I. Every transplant along L fixes W_D
    (`rem:T-preserves-WD`).
    """
    abduction_part = (rows @ abduction) @ basis.mT
    return abduction_part, rows - abduction_part


def affine_combination(parameters: Tensor, weights: Tensor) -> Tensor:
    """Return the affine combination of K stacked abductions or heads (K x ...).

    Negative weights extrapolate. Weights (K) that do not sum to one raise `ValueError`.
    """
    total = float(weights.sum())
    if abs(total - 1.0) > 1e-8 * max(1.0, float(weights.abs().sum())):
        raise ValueError(f"affine weights must sum to one, these sum to {total:.6g}")
    combination: Tensor = torch.tensordot(weights, parameters, dims=1)
    return combination


def find_witness(target_head: Tensor, source_heads: Tensor) -> Witness:
    """Find transplants that turn the head W_star (C x d) into all of W_1 ... W_K (K x C x d).

    Heads are gauge-fixed: their mean over classes, which softmax ignores, is removed. Their
    differences are written W_s - W_star = Q V_s^T with Q orthonormal. The basis is the L of least
    norm with W_star L = Q, V_s^T L = 0 and a last row of zeros; then A_s = A_star + V_s.

    An exact witness exists if and only if every class contrast c whose target weights
    W_star^T c lie, intercept aside, in the span of all V_s satisfies Q^T c = 0. In words: where
    the heads disagree about a contrast, the target must read it along some feature direction on
    which all heads agree. The condition fails, for example, when the affine hull of binary heads
    passes through zero. Generic heads satisfy it when K (C - 1) <= d - 1 for targets in the hull
    of the sources, and when (K + 1)(C - 1) <= d - 1 for any target.

    Without an exact witness, nothing is raised. The zero row and V_s^T L = 0 are kept, so
    transplants still fix the constant coordinate and are unipotent. But W_star L = Q holds in least
    squares only: `fit_residual` measures the error, and (P5) fails as well if L lost rank.
    Singular values up to 1e-8 of the largest head's norm count as zero.
    """
    if source_heads.ndim != 3 or source_heads.shape[1:] != target_head.shape:
        raise ValueError(
            f"source heads must be K x C x d for a C x d target head, got "
            f"{tuple(source_heads.shape)} and {tuple(target_head.shape)}"
        )
    target = target_head - target_head.mean(dim=0)
    sources = source_heads - source_heads.mean(dim=1, keepdim=True)
    cutoff = _TOLERANCE * float(torch.linalg.matrix_norm(torch.stack([target, *sources])).max())

    class_basis = _class_basis(sources - target, cutoff)
    shifts = (sources - target).mT @ class_basis
    basis = _witness_basis(target, class_basis, shifts, cutoff)
    target_abduction = pinv(basis, rtol=_TOLERANCE).mT
    abductions = target_abduction + shifts

    return measure_witness(target, sources, basis, target_abduction, abductions)


def measure_witness(
    target_head: Tensor,
    source_heads: Tensor,
    basis: Tensor,
    target_abduction: Tensor,
    source_abductions: Tensor,
) -> Witness:
    """Return given transplants as a witness, with the residuals of (P4) and (P5).

    The heads are W_star (C x d) and W_1 ... W_K (K x C x d), the basis is L (d x r), and the
    abductions are A_star (d x r) and A_1 ... A_K (K x d x r).
    """
    deduction = target_head.mT - target_abduction @ (target_head @ basis).mT
    shifts = source_abductions - target_abduction
    misfit = torch.linalg.matrix_norm(
        target_head + (target_head @ basis) @ shifts.mT - source_heads
    )
    return Witness(
        basis=basis,
        target=target_abduction,
        sources=source_abductions,
        deduction=deduction,
        fit_residual=float((misfit / torch.linalg.matrix_norm(source_heads).clamp(min=1.0)).max()),
        biorthogonality_residual=biorthogonality(
            basis, target_abduction, source_abductions, deduction
        ),
        rank=basis.shape[1],
    )


def biorthogonality(basis: Tensor, target: Tensor, sources: Tensor, deduction: Tensor) -> float:
    """Return the largest entry of A_s^T L - I, A_star^T L - I and D^T L: the residual of (P5)."""
    identity = torch.eye(basis.shape[1], dtype=basis.dtype, device=basis.device)
    readouts = torch.stack([target, *sources]).mT @ basis - identity
    return max(_largest(readouts), _largest(deduction.mT @ basis))


def _solve_system(
    abductions: Sequence[Tensor], deduction: Tensor, tolerance: float
) -> tuple[KernelReport, BasisSet]:
    """Solve M^T L = [I; ...; I; 0] in least squares and describe the solution set."""
    system = torch.cat([*abductions, deduction], dim=1)
    r = abductions[0].shape[1]
    identity = torch.eye(r, dtype=system.dtype, device=system.device)
    right = torch.cat([identity] * len(abductions) + [identity.new_zeros(deduction.shape[1], r)])

    left, values, right_vectors = svd(system, full_matrices=True)
    rank = int((values > tolerance * values.max()).sum())
    scaled = (right_vectors[:rank] @ right) / values[:rank, None]
    bases = BasisSet(particular=left[:, :rank] @ scaled, directions=left[:, rank:])

    misfit = torch.linalg.matrix_norm(system.mT @ bases.particular - right)
    residual = float(misfit / torch.linalg.matrix_norm(right))
    holds = residual <= tolerance
    report = KernelReport(
        rank=rank,
        columns=system.shape[1],
        residual=residual,
        holds=holds,
        solution_dimension=bases.dimension if holds else -1,
    )
    return report, bases


def _class_basis(differences: Tensor, cutoff: float) -> Tensor:
    """Return an orthonormal basis (C x r) of the classes' head differences (K x C x d)."""
    stacked = torch.cat(list(differences), dim=1)
    left, values, _ = svd(stacked, full_matrices=False)
    basis: Tensor = left[:, values > cutoff]
    return basis


def _witness_basis(target: Tensor, class_basis: Tensor, shifts: Tensor, cutoff: float) -> Tensor:
    """Return the least-norm L (d x r) with W_star L = Q, V_s^T L = 0 and a last row of zeros."""
    stacked = torch.cat(list(shifts[:, :-1]), dim=1)
    left, values, _ = svd(stacked, full_matrices=True)
    # L is sought inside the common kernel of the V_s, not by one least-squares system for both
    # conditions: an infeasible fit would otherwise cost unipotence as well.
    kernel = left[:, int((values > cutoff).sum()) :]
    # The cutoff is absolute because a target read only along the V_s leaves pure rounding here.
    features = kernel @ (pinv(target[:, :-1] @ kernel, atol=cutoff) @ class_basis)
    return torch.cat([features, features.new_zeros(1, features.shape[1])])


def _largest(values: Tensor) -> float:
    return float(values.abs().max()) if values.numel() else 0.0
