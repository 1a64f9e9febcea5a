"""Eigenvalue and singular value decompositions that find an answer where torch's own gives up.

Torch's routines divide and conquer, which fails to converge on a few harmless matrices. There the
slower routines of SciPy take over, one matrix after the other; what they cannot do either is moved
by some units of its last digit, which moves the answer by as little. Everywhere else the results
are torch's own, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_FAILURE = torch.linalg.LinAlgError  # type: ignore[attr-defined]
_JITTER = 16  # units of the last digit of the largest entry
_RIDGES = 12  # each sixteen times the one before
_TRIES = 4  # each with sixteen times the jitter of the one before

_Arrays = tuple[NDArray[np.float64], ...]
_Routine = Callable[[NDArray[np.float64]], _Arrays]


def eigh(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues (..., k), ascending, and eigenvectors (..., k, k) of symmetric matrices.

    Raises ``ValueError`` if a matrix holds what is no finite number.
    """
    try:
        values, vectors = torch.linalg.eigh(matrix)
        return values, vectors
    except _FAILURE:
        values, vectors = _one_by_one(matrix, _eigh_routines())
        return values, vectors


def eigvalsh(matrix: Tensor) -> Tensor:
    """Return the eigenvalues (..., k) of symmetric matrices, ascending; errors as of ``eigh``."""
    try:
        values: Tensor = torch.linalg.eigvalsh(matrix)
        return values
    except _FAILURE:
        return _one_by_one(matrix, _eigh_routines())[0]


def svd(matrix: Tensor, *, full_matrices: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return left vectors, values and transposed right vectors, as ``torch.linalg.svd`` does.

    Raises ``ValueError`` if a matrix holds what is no finite number.
    """
    try:
        left, values, right = torch.linalg.svd(matrix, full_matrices=full_matrices)
        return left, values, right
    except _FAILURE:
        left, values, right = _one_by_one(matrix, _svd_routines(full_matrices))
        return left, values, right


def svdvals(matrix: Tensor) -> Tensor:
    """Return the singular values (..., k) of matrices; errors as of ``svd``."""
    try:
        values: Tensor = torch.linalg.svdvals(matrix)
        return values
    except _FAILURE:
        return svd(matrix, full_matrices=False)[1]


def pinv(
    matrix: Tensor,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    hermitian: bool = False,
) -> Tensor:
    """Return the pseudo-inverse of a matrix, as ``torch.linalg.pinv`` does."""
    try:
        inverse: Tensor = torch.linalg.pinv(matrix, atol=atol, rtol=rtol, hermitian=hermitian)
        return inverse
    except _FAILURE:
        left, values, right = svd(matrix, full_matrices=False)
        usual = 0.0 if atol else max(matrix.shape) * torch.finfo(matrix.dtype).eps
        share = usual if rtol is None else rtol
        kept = values > max(atol or 0.0, share * float(values.max()))
        return right[kept].mT @ (left[:, kept] / values[kept]).mT


def cholesky(matrix: Tensor) -> Tensor:
    """Return the lower Cholesky factors of symmetric matrices (..., k, k).

    Matrices that rounding has made indefinite get as much more of a ridge as they need. Raises
    ``ValueError`` if one holds what is no finite number.
    """
    try:
        factor: Tensor = torch.linalg.cholesky(matrix)
        return factor
    except _FAILURE:
        _check_finite(matrix)
    size = torch.finfo(matrix.dtype).eps * matrix.abs().amax(dim=(-2, -1), keepdim=True)
    identity = torch.eye(matrix.shape[-1]).to(matrix)
    for power in range(1, _RIDGES + 1):
        factor, failures = torch.linalg.cholesky_ex(matrix + 16**power * size * identity)
        if not bool(failures.any()):
            return factor
    raise ValueError("a matrix cannot be decomposed: scale the features to similar sizes.")


def _check_finite(matrix: Tensor) -> None:
    if not bool(matrix.isfinite().all()):
        raise ValueError(
            "some numbers are too large to compute with: divide the features by a large number."
        )


def _eigh_routines() -> list[_Routine]:
    from scipy import linalg

    return [lambda a: linalg.eigh(a, driver="evr"), lambda a: linalg.eigh(a, driver="ev")]


def _svd_routines(full_matrices: bool) -> list[_Routine]:
    from scipy import linalg

    return [lambda a: linalg.svd(a, full_matrices=full_matrices, lapack_driver="gesvd")]


def _one_by_one(matrix: Tensor, routines: list[_Routine]) -> list[Tensor]:
    """Decompose matrices (..., m, n) by the first of the routines that succeeds on each."""
    _check_finite(matrix)
    batch = matrix.shape[:-2]
    flat = matrix.detach().cpu().double().reshape(-1, *matrix.shape[-2:]).numpy()
    parts = zip(*(_decompose(each, routines) for each in flat), strict=True)
    return [
        torch.from_numpy(np.stack(part)).reshape(*batch, *part[0].shape).to(matrix)
        for part in parts
    ]


def _decompose(matrix: NDArray[np.float64], routines: list[_Routine]) -> _Arrays:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(matrix.shape)
    if matrix.shape[0] == matrix.shape[1]:
        noise = noise + noise.T  # a symmetric matrix stays one
    size = _JITTER * np.finfo(np.float64).eps * np.abs(matrix).max()
    for step in range(_TRIES + 1):
        moved = matrix if step == 0 else matrix + size * 16 ** (step - 1) * noise
        for routine in routines:
            try:
                return routine(moved)
            except np.linalg.LinAlgError:  # SciPy's is the same
                continue
    raise ValueError("a matrix cannot be decomposed: scale the features to similar sizes.")
