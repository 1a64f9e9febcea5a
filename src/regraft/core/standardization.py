"""Rows in units of each feature's standard deviation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regraft.core.domains import Domains
from regraft.core.heads import SourceHeads
from regraft.core.surrogates import WeightedSample
from regraft.core.whitening import EIGENVALUE_FLOOR, chunks_of
from regraft.support.memory_map import released

_ROUNDING = 1e-12  # of a column's mean; a column that varies less is constant


@dataclass(frozen=True)
class Standardized:
    """Rows [(x - mean) / scale, 1], with the maps of heads to and from [x, 1]."""

    rows: WeightedSample
    mean: Tensor  # (d,)
    scale: Tensor  # (d,)

    def to_features(self, heads: Tensor) -> Tensor:
        """Convert heads (..., d + 1) on standardized rows to heads on [x, 1]."""
        coef = heads[..., :-1] / self.scale
        return torch.cat([coef, heads[..., -1:] - (coef @ self.mean).unsqueeze(-1)], dim=-1)

    def from_features(self, heads: Tensor) -> Tensor:
        """Convert heads (..., d + 1) on [x, 1] to heads on standardized rows."""
        heads = heads.to(self.mean)
        coef, intercept = heads[..., :-1], heads[..., -1:]
        return torch.cat([coef * self.scale, intercept + (coef @ self.mean).unsqueeze(-1)], dim=-1)


def standardize(sources: SourceHeads) -> Standardized:
    """Standardize the rows of ``sources``, in their order, with their labels and weights."""
    whitening, weight = sources.whitening, sources.weight
    x = (sources.Z[:, :-1] * whitening.scale) @ whitening.basis.T  # centred
    variance = weight @ x.square()
    # A feature that hardly varies is rounding noise after whitening; unscaled, it is harmless.
    varies = variance > EIGENVALUE_FLOOR * whitening.eigenvalues.max()
    scale = torch.where(varies, variance.sqrt(), torch.ones_like(variance))
    Z = torch.cat([x / scale, x.new_ones((len(x), 1))], dim=1)
    return Standardized(WeightedSample(Z, sources.y, weight), whitening.mean, scale)


def standardize_columns(domains: Domains) -> Domains:
    """Return a copy whose columns have mean 0 and variance 1 over all rows; constants become 0."""
    weight, mean = domains.weight, domains.weight.new_zeros(domains.X.shape[1])
    variance = torch.zeros_like(mean)
    chunks = chunks_of(domains.X)
    for rows in released(chunks, domains.mapping):
        mean += weight[rows] @ domains.X[rows].to(weight)
    for rows in released(chunks, domains.mapping):
        variance += weight[rows] @ (domains.X[rows].to(weight) - mean).square()
    scale = variance.sqrt()
    varies = scale > _ROUNDING * mean.abs()
    dtype = torch.promote_types(domains.X.dtype, torch.float32)
    X = torch.empty_like(domains.X, dtype=dtype)
    for rows in released(chunks, domains.mapping):
        centred = domains.X[rows].to(weight) - mean
        X[rows] = torch.where(varies, centred / scale, 0.0).to(dtype)
    return replace(domains, X=X, mapping=None)
