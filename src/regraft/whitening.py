"""Shrunk whitening of pooled features: the coordinates in which heads are fitted."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

CHUNK_ROWS = 8192
# Directions whose variance is below this share of the largest carry rounding noise only.
EIGENVALUE_FLOOR = 1e-11


def row_chunks(n: int, size: int = CHUNK_ROWS) -> list[slice]:
    """Slices of ``n`` rows, for work that needs a temporary of the data's width."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


@dataclass(frozen=True)
class Whitening:
    """The map ``x -> [(x - mean) @ basis / scale, 1]``, ``scale² = eigenvalue + shrinkage·mean``.

    Shrinking towards the mean eigenvalue (not feature by feature) keeps every later fit invariant
    to rotations and to a common rescaling of the features.
    """

    mean: Tensor  # (d,)
    basis: Tensor  # (d, k) orthonormal principal directions, k <= d
    eigenvalues: Tensor  # (k,) variances along them
    shrinkage: float = 0.0

    @property
    def scale(self) -> Tensor:
        """(k,) divisor of each principal coordinate."""
        return (self.eigenvalues + self.shrinkage * self.eigenvalues.mean()).sqrt()

    def __call__(self, X: Tensor, order: Tensor | None = None) -> Tensor:
        """Whitened rows with a constant 1 appended: (n, d) -> (n, k + 1), taken in ``order``."""
        order = torch.arange(len(X), device=X.device) if order is None else order
        Z = X.new_ones((len(order), len(self.eigenvalues) + 1), dtype=self.mean.dtype)
        directions = self.basis / self.scale
        for rows in row_chunks(len(order)):
            Z[rows, :-1] = (X[order[rows]].to(self.mean.dtype) - self.mean) @ directions
        return Z

    def with_shrinkage(self, shrinkage: float) -> Whitening:
        """The same principal directions under another shrinkage."""
        return replace(self, shrinkage=shrinkage)

    def penalty(self, shrinkage: float) -> Tensor:
        """(k + 1,) ridge weights that act here as a plain ridge does under ``shrinkage``."""
        ratio = (self.with_shrinkage(shrinkage).scale / self.scale).square()
        return torch.cat([ratio, ratio.new_ones(1)])

    def to_features(self, heads: Tensor) -> Tensor:
        """Heads on whitened rows as heads on ``[x, 1]``: (..., k + 1) -> (..., d + 1)."""
        coef = (heads[..., :-1] / self.scale) @ self.basis.T
        intercept = heads[..., -1] - coef @ self.mean
        return torch.cat([coef, intercept.unsqueeze(-1)], dim=-1)


def fit_whitening(X: Tensor, weight: Tensor) -> Whitening:
    """Principal directions of the rows ``X`` (n, d) under ``weight`` (n,), which sums to one."""
    chunks = row_chunks(len(X))
    mean = sum((weight[rows] @ X[rows].to(weight.dtype) for rows in chunks), weight.new_zeros(()))
    covariance = weight.new_zeros((X.shape[1], X.shape[1]))
    for rows in chunks:
        centred = X[rows].to(weight.dtype) - mean
        covariance.addmm_((centred * weight[rows, None]).T, centred)
    eigenvalues, basis = torch.linalg.eigh(covariance)
    keep = eigenvalues > EIGENVALUE_FLOOR * eigenvalues[-1].clamp_min(0)
    return Whitening(mean, basis[:, keep].contiguous(), eigenvalues[keep])
