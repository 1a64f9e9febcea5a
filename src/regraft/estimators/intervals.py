"""Intervals of the class probabilities over the plausible targets of a fitted CROClassifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regraft.core.domains import iterate_row_chunks
from regraft.core.group_certificate import GroupCertificate
from regraft.core.head_certificate import HeadCertificate
from regraft.core.intervals import (
    Interval,
    RowBounds,
    factorized_bounds,
    hull_bounds,
    join_bounds,
    mixture_bounds,
)

if TYPE_CHECKING:
    from regraft.estimators.cro import CROClassifier


def interval_of(model: CROClassifier, features: NDArray[np.floating[Any]]) -> Interval:
    """Return the interval of the rows ``features`` (n, d), which are checked already."""
    bounds = _FAMILIES[model.family]
    rows = join_bounds(
        [
            bounds(model, torch.from_numpy(features[rows].astype(np.float64)))
            for rows in iterate_row_chunks(features)
        ]
    )
    return Interval(rows.lower.numpy(), rows.upper.numpy(), rows.decided.numpy(), model.classes_)


def _latent(model: CROClassifier, X: Tensor) -> RowBounds:
    certificate = model.certificate_
    assert isinstance(certificate, GroupCertificate)
    prior = torch.from_numpy(model.group_prior_) if certificate.class_groups else None
    return mixture_bounds(_apply(model.group_heads_, X), certificate.prior_shift, prior)


def _hull(model: CROClassifier, X: Tensor) -> RowBounds:
    certificate = model.certificate_
    assert isinstance(certificate, HeadCertificate) and certificate.radius is not None
    mixing = torch.from_numpy(model.hull_mixing_)
    return hull_bounds(_apply(model.hull_heads_, X), mixing, certificate.radius)


def _factorized(model: CROClassifier, X: Tensor) -> RowBounds:
    certificate = model.certificate_
    assert isinstance(certificate, HeadCertificate) and certificate.radius is not None
    maps = _apply(model.abductions_, X), _apply(model.deduction_, X)
    return factorized_bounds(*maps, torch.from_numpy(model.hull_mixing_), certificate.radius)


_FAMILIES: dict[str, Callable[[CROClassifier, Tensor], RowBounds]] = {
    "latent": _latent,
    "hull": _hull,
    "factorized": _factorized,
}


def _apply(maps: NDArray[np.float64], X: Tensor) -> Tensor:
    """Return the values (n, ...) of linear maps (..., d + 1) on ``[x, 1]`` of rows (n, d)."""
    flat = torch.from_numpy(maps.reshape(-1, maps.shape[-1]))
    values = X @ flat[:, :-1].T + flat[:, -1]
    return values.reshape(len(X), *maps.shape[:-1])
