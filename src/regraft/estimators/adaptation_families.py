"""Heads of a model's family, by few coordinates that labels of a new domain can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor

from regraft.core.adaptation import CoordinatePrior, fit_coordinates, predict_coordinates
from regraft.core.evidence import HeldOutRows, judge
from regraft.core.group_shares import target_log_probabilities
from regraft.core.newton import losses
from regraft.core.reference import Reference
from regraft.estimators.linear_maps import apply_maps

if TYPE_CHECKING:
    from regraft.estimators.cro import CROClassifier

_SMALLEST_SHARE = 1e-3


class Family(Protocol):
    """Heads of a family, by their coordinates; rows are the labelled ones of a target."""

    prior: CoordinatePrior

    def fit(self, kept: Tensor) -> Tensor:
        """Return the coordinates that the labels of the rows ``kept`` (l,) point to."""

    def log_p(self, coordinates: Tensor) -> Tensor:
        """Return log P(y | x) (l, C) of the rows."""

    def heads(self, coordinates: Tensor) -> Tensor:
        """Return linear heads (G, C, d + 1) of log P(y, u | x), up to a constant."""


class GroupFamily:
    """Mixtures of the groups; coordinates are log-odds against the first group."""

    def __init__(
        self,
        model: CROClassifier,
        reference: Reference,
        log_joint: Tensor,
        labelled: Tensor,
        unlabelled: Tensor | None,
    ) -> None:
        self._model, self._reference, self._log_joint = model, reference, log_joint
        self._labelled = labelled
        self._unlabelled = labelled[:0] if unlabelled is None else unlabelled
        found = model.certificate_.abduction  # type: ignore[attr-defined]
        shares = torch.tensor(found["shares"], dtype=torch.float64)
        self.prior = predict_coordinates(self.coordinates(shares))

    def coordinates(self, shares: Tensor) -> Tensor:
        """Return the log-odds (..., G - 1) of shares (..., G)."""
        log_shares = shares.clamp_min(_SMALLEST_SHARE).log()
        return log_shares[..., 1:] - log_shares[..., :1]

    def shares(self, coordinates: Tensor) -> Tensor:
        """Return the shares (G,) of the groups."""
        return torch.softmax(torch.cat([coordinates.new_zeros(1), coordinates]), dim=0)

    def fit(self, kept: Tensor) -> Tensor:
        """Return the coordinates that the labels of the rows ``kept`` (l,) point to."""
        ratios = torch.cat([self._labelled[kept], self._unlabelled])
        return fit_coordinates(
            lambda z: torch.logsumexp(ratios + self.shares(z).log(), dim=1).sum(), self.prior
        )

    def log_p(self, coordinates: Tensor) -> Tensor:
        """Return log P(y | x) (l, C) of the rows."""
        return self._in(self._log_joint, coordinates)

    def judge(self, coordinates: Tensor) -> HeldOutRows:
        """Judge the rows of the sources by heads that have not seen them."""
        return judge(self._in(self._reference.log_joint, coordinates).T, self._reference.y)

    def _in(self, log_joint: Tensor, coordinates: Tensor) -> Tensor:
        shares = self._reference.shares
        return target_log_probabilities(log_joint, shares, self.shares(coordinates))

    def heads(self, coordinates: Tensor) -> Tensor:
        """Return linear heads (G, C, d + 1) of log P(y, u | x), up to a constant."""
        heads = torch.from_numpy(self._model.group_heads_).clone()
        tilt = self.shares(coordinates).log() - self._reference.shares.log()
        heads[..., -1] += tilt.unsqueeze(1)
        return heads


class HullFamily:
    """Affine combinations of the source heads; coordinates are those of the model's hull."""

    def __init__(self, model: CROClassifier, features: NDArray[Any], y: Tensor) -> None:
        self._heads = torch.from_numpy(model.hull_heads_)
        self._mixing = torch.from_numpy(model.hull_mixing_)
        self._names, K = [str(name) for name in model.domains_], len(self._heads)
        values = apply_maps(model.hull_heads_, torch.from_numpy(features).double())
        self._logits = values.transpose(0, 1)  # (K, n, C)
        self._y = y
        apart = torch.eye(K, dtype=torch.float64) - 1 / K
        self.prior = predict_coordinates(torch.linalg.lstsq(self._mixing.T, apart).solution.T)

    def _coefficients(self, coordinates: Tensor) -> Tensor:
        return 1 / len(self._heads) + coordinates @ self._mixing

    def weights(self, coordinates: Tensor) -> dict[str, float]:
        """Return the affine coefficients of the sources."""
        coefficients = self._coefficients(coordinates).tolist()
        return dict(zip(self._names, coefficients, strict=True))

    def fit(self, kept: Tensor) -> Tensor:
        """Return the coordinates that the labels of the rows ``kept`` (l,) point to."""
        return fit_coordinates(
            lambda z: -losses(self.log_p(z)[kept], self._y[kept]).sum(), self.prior
        )

    def log_p(self, coordinates: Tensor) -> Tensor:
        """Return log P(y | x) (l, C) of the rows."""
        logits = torch.tensordot(self._coefficients(coordinates), self._logits, dims=1)
        return torch.log_softmax(logits, dim=1)

    def heads(self, coordinates: Tensor) -> Tensor:
        """Return linear heads (G, C, d + 1) of log P(y, u | x), up to a constant."""
        return torch.einsum("k,kcd->cd", self._coefficients(coordinates), self._heads)[None]
