"""Intervals of the class probabilities over the plausible targets of a fitted CROClassifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regraft.core.features import iterate_row_chunks
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
from regraft.estimators.linear_maps import apply_maps

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
    return mixture_bounds(apply_maps(model.group_heads_, X), certificate.prior_shift, prior)


def _hull(model: CROClassifier, X: Tensor) -> RowBounds:
    certificate = model.certificate_
    assert isinstance(certificate, HeadCertificate) and certificate.radius is not None
    mixing = torch.from_numpy(model.hull_mixing_)
    return hull_bounds(apply_maps(model.hull_heads_, X), mixing, certificate.radius)


def _factorized(model: CROClassifier, X: Tensor) -> RowBounds:
    certificate = model.certificate_
    assert isinstance(certificate, HeadCertificate) and certificate.radius is not None
    maps = apply_maps(model.abductions_, X), apply_maps(model.deduction_, X)
    return factorized_bounds(*maps, torch.from_numpy(model.hull_mixing_), certificate.radius)


_FAMILIES: dict[str, Callable[[CROClassifier, Tensor], RowBounds]] = {
    "latent": _latent,
    "hull": _hull,
    "factorized": _factorized,
}
