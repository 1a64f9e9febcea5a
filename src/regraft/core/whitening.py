"""Whitening of pooled features, with shrinkage: the coordinates in which heads are fitted."""

from __future__ import annotations

import mmap
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regraft.core.decompositions import eigh
from regraft.support.memory_map import released

_CHUNK_ROWS = 8192
_CHUNK_ENTRIES = 2**21
_CONVERSION_ENTRIES = 800_000
_GPU_FACTOR = 32  # by which chunks are larger there: it would wait between shorter steps
# Rows of short floats that would take more bytes than this in float64 are stored in float32.
LARGE_BYTES = 2**30
# Directions whose variance is below this share of the largest carry rounding noise only.
EIGENVALUE_FLOOR = 1e-11
# A deviation below this share of the mean is the rounding of a constant.
_ROUNDING = 1e-13


def row_chunks(
    n: int, width: int = 1, entries: int = _CHUNK_ENTRIES, factor: int = 1
) -> list[slice]:
    """Return slices of ``n`` rows, for work that needs temporaries of this ``width``.

    A slice has at most 8192 rows, and so few that a temporary has about ``entries`` at most, or
    ``factor`` times as many of both.
    """
    size = factor * max(256, min(_CHUNK_ROWS, entries // width))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def chunks_of(Z: Tensor, width: int | None = None, entries: int = _CHUNK_ENTRIES) -> list[slice]:
    """Return slices of the rows ``Z`` (n, k) for the device that they are on.

    Temporaries are as wide as ``Z``, unless told otherwise.
    """
    factor = _GPU_FACTOR if Z.is_cuda else 1
    return row_chunks(len(Z), Z.shape[1] if width is None else width, entries, factor)


def conversion_chunks(Z: Tensor, dtype: torch.dtype) -> list[slice]:
    """Return one slice of all rows if ``Z`` has this dtype, else chunks to convert one by one."""
    if Z.dtype == dtype:
        return [slice(0, len(Z))]
    return chunks_of(Z, entries=_CONVERSION_ENTRIES)


@dataclass(frozen=True)
class Whitening:
    """Map ``x -> [(x - mean) @ basis / scale, 1]`` with ``scale² = eigenvalue + shrinkage·mean``.

    Shrinking towards the mean eigenvalue (not feature by feature) keeps every later fit invariant
    to rotations and to a common rescaling of the features.
    """

    mean: Tensor  # (d,)
    basis: Tensor  # (d, k) orthonormal principal directions, k <= d
    eigenvalues: Tensor  # (k,) variances along them
    shrinkage: float = 0.0

    @property
    def scale(self) -> Tensor:
        """Divisor (k,) of each principal coordinate."""
        return (self.eigenvalues + self.shrinkage * self.eigenvalues.mean()).sqrt()

    def __call__(
        self, X: Tensor, order: Tensor | None = None, mapping: mmap.mmap | None = None
    ) -> Tensor:
        """Whiten rows and append a constant 1: (n, d) -> (n, k + 1), in the order ``order``.

        ``order`` is a permutation. The result is float64, or float32 if there are very many rows
        and ``X`` is no more precise. ``X`` is read from the first row to the last, and the pages of
        the memory-mapped file ``mapping`` behind it are released on the way.
        """
        place = torch.arange(len(X), device=X.device)
        if order is not None:
            place[order] = place.clone()
        shape = len(X), len(self.eigenvalues) + 1
        Z = X.new_ones(shape, dtype=_storage_dtype(shape, X.dtype, self.mean.dtype))
        directions = self.basis / self.scale
        for rows in released(chunks_of(X), mapping):
            whitened = (X[rows].to(self.mean.dtype) - self.mean) @ directions
            Z[place[rows], :-1] = whitened.to(Z.dtype)
        return Z

    def with_shrinkage(self, shrinkage: float) -> Whitening:
        """Return the same principal directions with another shrinkage."""
        return replace(self, shrinkage=shrinkage)

    def penalty(self, shrinkage: float) -> Tensor:
        """Return ridge weights (k + 1,) that act here as a plain ridge does under ``shrinkage``."""
        ratio = (self.with_shrinkage(shrinkage).scale / self.scale).square()
        return torch.cat([ratio, ratio.new_ones(1)])

    def to_features(self, heads: Tensor) -> Tensor:
        """Convert heads on whitened rows to heads on ``[x, 1]``: (..., k + 1) -> (..., d + 1)."""
        coef = (heads[..., :-1] / self.scale) @ self.basis.T
        intercept = heads[..., -1] - coef @ self.mean
        return torch.cat([coef, intercept.unsqueeze(-1)], dim=-1)


def fit_whitening(X: Tensor, weight: Tensor, mapping: mmap.mmap | None = None) -> Whitening:
    """Find the principal directions of rows ``X`` (n, d) under ``weight`` (n,), which sums to one.

    The pages of the memory-mapped file ``mapping`` behind ``X`` are released on the way.
    """
    chunks = chunks_of(X)
    mean = weight.new_zeros(X.shape[1])
    for rows in released(chunks, mapping):
        mean += weight[rows] @ X[rows].to(weight.dtype)
    covariance = weight.new_zeros((X.shape[1], X.shape[1]))
    for rows in released(chunks, mapping):
        centred = X[rows].to(weight.dtype) - mean
        covariance.addmm_((centred * weight[rows, None]).T, centred)
    varies = covariance.diagonal().sqrt() > _ROUNDING * mean.abs()
    if not varies.any():
        return Whitening(mean, covariance[:, :0], mean[:0])
    # With constant columns, decompositions are slower and may even fail to converge.
    eigenvalues, axes = eigh(covariance if varies.all() else covariance[varies][:, varies])
    keep = eigenvalues > EIGENVALUE_FLOOR * eigenvalues[-1].clamp_min(0)
    basis = covariance.new_zeros(len(mean), int(keep.sum()))
    basis[varies] = axes[:, keep]
    return Whitening(mean, basis, eigenvalues[keep])


def _storage_dtype(shape: tuple[int, int], given: torch.dtype, exact: torch.dtype) -> torch.dtype:
    """Return the dtype to store rows of this shape in, if computed in ``exact`` from ``given``."""
    large = shape[0] * shape[1] * exact.itemsize > LARGE_BYTES
    return torch.float32 if large and given.itemsize < exact.itemsize else exact
