"""How hidden groups are tied to the classes: errors of their shares, and which ends are alike."""

from __future__ import annotations

import torch
from torch import Tensor

from regraft.core.abduction import Groups
from regraft.core.domains import Domains
from regraft.core.whitening import chunks_of
from regraft.support.memory_map import released

_UNKNOWN = 0.5  # standard error of a share that no row tells anything about


def share_errors(found: Groups, domain: Tensor, y: Tensor) -> Tensor:
    """Return the standard errors (K, C, G) of the shares of the groups in each source and class.

    ``domain`` and ``y`` (n,) are the source and the class of each row of ``found``. A row tells
    about a share as far as it tells its group (Fisher's information of the weight of a component).
    The models of the groups are taken as known.
    """
    K, C, G = found.shares.shape
    if found.models is None:
        return torch.zeros_like(found.shares)
    cell = domain * C + y
    pooled = found.models.log_prior.exp().mean(dim=0)[y]  # (n, G)
    own = found.shares.reshape(K * C, G)[cell]
    belief = found.posterior
    # Densities of a row in its group and in the others, up to a factor that they share.
    inside, outside = belief * (1 - pooled), (1 - belief) * pooled
    mixed = own * inside + (1 - own) * outside
    slope = (inside - outside) / mixed.clamp_min(torch.finfo(mixed.dtype).tiny)
    told = belief.new_zeros((K * C, G)).index_add_(0, cell, slope.square())
    return told.rsqrt().clamp_max(_UNKNOWN).reshape(K, C, G)


def source_share_errors(found: Groups, domain: Tensor, y: Tensor) -> Tensor:
    """Return the standard errors (K, G) of the shares of the groups in each source."""
    errors = share_errors(found, domain, y)
    K, C, _ = errors.shape
    rows = torch.bincount(domain * C + y, minlength=K * C).reshape(K, C)
    weight = rows / rows.sum(dim=1, keepdim=True)
    return (weight.unsqueeze(2) * errors).square().sum(dim=1).sqrt()


def align_classes(found: Groups, domains: Domains) -> Tensor:
    """Return how far the last group of each class (C,) looks like the last one of the first class.

    Each entry is the correlation of a row's group with its score under the other classes' models.
    It is near 1 where the last groups are alike, near -1 where a last group is like the first
    groups of the others, and near 0 where the classes' groups have nothing in common.
    """
    C = found.shares.shape[1]
    if found.models is None or C == 1:
        return found.posterior.new_ones(C)
    maps = found.models.maps[..., :-1]
    weights = torch.nn.functional.normalize(maps[:, -1] - maps[:, 0], dim=1)  # (C, d)
    first = weights[:1].expand_as(weights)
    signs = torch.where(_correlate(found, domains, first) < 0, -1.0, 1.0).to(weights)
    signs[0] = 1.0
    signed = signs.unsqueeze(1) * weights
    return _correlate(found, domains, signed.sum(dim=0) - signed)


def _correlate(found: Groups, domains: Domains, directions: Tensor) -> Tensor:
    """Correlate, within each class, the rows' groups with their scores along ``directions``."""
    y, C = domains.y, len(directions)
    score = directions.new_empty(len(y))
    for rows in released(chunks_of(domains.X), domains.mapping):
        score[rows] = (domains.X[rows].to(directions) * directions[y[rows]]).sum(dim=1)
    number = torch.arange(found.n_groups, device=y.device).to(score)
    pair = torch.stack([found.posterior.to(score) @ number, score])  # (2, n)
    count = torch.bincount(y, minlength=C).clamp_min(1)

    def mean(values: Tensor) -> Tensor:
        return values.new_zeros((len(values), C)).index_add_(1, y, values) / count

    centred = pair - mean(pair)[:, y]
    variances = mean(centred.square())
    covariance = mean(centred.prod(dim=0, keepdim=True)).squeeze(0)
    return covariance / variances.prod(dim=0).sqrt().clamp_min(torch.finfo(score.dtype).tiny)
