"""Rows of sources that weights turn into plausible targets, and the targets' conditionals.

A row (x, y) of source s has weight ``softmax(log g_z(x) - log g_s(x))_y`` in the target with class
probabilities g_z(x), times its own. Its labels given x are then those of g_z, if those of source s
are those of g_s. Weights are bounded. The law of x moves with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

PullBack = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class TargetRows:
    """Rows with what the weights of every target of a hull follow from.

    Classes come first and rows last, so that sums over classes run along contiguous memory.
    """

    own: Tensor  # (C, n) logits of the labels in a row's own source
    y: Tensor  # (n,)
    domain: Tensor  # (n,)
    log_weight: Tensor  # (n,) logarithms of weights that sum to one
    sources: Tensor  # (K, m) the sources in the hull's coordinates

    def at(self, z: Tensor) -> tuple[Tensor, PullBack]:
        """Return the logits (C, n) of the labels in the target at ``z`` (m,), and their derivative.

        The latter turns slopes (C, n) in these logits to slopes (m,) in z. Several targets (B, m)
        have logits (B, C, n), and no derivative.
        """
        raise NotImplementedError

    def _row_tensors(self) -> tuple[str, ...]:
        """Return the names of fields whose last axis is that of the rows."""
        return "own", "y", "domain", "log_weight"

    def take(self, rows: Tensor) -> Self:
        """Return some of the rows."""
        taken: dict[str, Any] = {
            name: getattr(self, name)[..., rows] for name in self._row_tensors()
        }
        return replace(self, **taken)

    def weights(self, z: Tensor) -> Tensor:
        """Return the weight (n,) of each row for the target at ``z``; the weights sum to one."""
        return self.weigh(self.at(z)[0])[0]

    def own_losses(self, z: Tensor) -> Tensor:
        """Return the cross-entropy (n,) of each row in the target's own eyes, at ``z`` (m,)."""
        return -entry_of_label(torch.log_softmax(self.at(z)[0], dim=0), self.y)

    def source_losses(self) -> Tensor:
        """Return the cross-entropy (n,) of each row under the conditional of its own source."""
        return -entry_of_label(torch.log_softmax(self.own, dim=0), self.y)

    def source_weights(self, source: int) -> Tensor:
        """Return the weight (n,) of each row in a source as it is; the weights sum to one."""
        weight = self.log_weight.exp() * (self.domain == source)
        return weight / weight.sum()

    def weigh(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights (n,) of a target with logits (C, n), and shares (C, n) of the classes.

        A weight's logarithm changes with the logit of the label, less the mean of the logits under
        the shares. Several targets (B, C, n) have weights (B, n).
        """
        log_share = torch.log_softmax(logits - self.own, dim=-2)
        # Relative to the largest, so that a far target's weights do not all underflow.
        weight = torch.softmax(self.log_weight + entry_of_label(log_share, self.y), dim=-1)
        return weight, log_share.exp_()


@dataclass(frozen=True)
class TiltedRows(TargetRows):
    """Rows for targets whose logits are ``center + Σ_j z_j tilt_j``: heads of a hull."""

    tilt: Tensor  # (m, C, n) logits of the hull's directions
    center: Tensor  # (C, n) logits of the hull's center

    def at(self, z: Tensor) -> tuple[Tensor, PullBack]:
        """Return the logits (C, n) of the target at ``z`` (m,), and their derivative."""
        logits = self.center + torch.tensordot(z, self.tilt, dims=1)
        return logits, lambda slope: self.tilt.flatten(1) @ slope.flatten()

    def _row_tensors(self) -> tuple[str, ...]:
        return *super()._row_tensors(), "tilt", "center"


@dataclass(frozen=True)
class FactorizedRows(TargetRows):
    """Rows for targets ``Σ_u softmax(center + Σ_j z_j tilt_j)_u P(y | x, u)``.

    The abduction moves in a hull, and the deduction is that of all domains.
    """

    tilt: Tensor  # (m, G, n) logits of groups of the hull's directions
    center: Tensor  # (G, n) those of the hull's center
    log_deduction: Tensor  # (G, C, n) log P(y | x, u)

    def at(self, z: Tensor) -> tuple[Tensor, PullBack]:
        """Return the log-probabilities (C, n) of the target at ``z``, and their derivative."""
        log_a = torch.log_softmax(self.center + torch.tensordot(z, self.tilt, dims=1), dim=-2)
        joint = log_a.unsqueeze(-2) + self.log_deduction
        logits = torch.logsumexp(joint, dim=-3)

        def pull_back(slope: Tensor) -> Tensor:
            # log P(y | x) changes with the logit of u by P(u | x, y) - P(u | x).
            by_group = ((joint - logits).exp_() * slope).sum(dim=1) - log_a.exp() * slope.sum(dim=0)
            return self.tilt.flatten(1) @ by_group.flatten()

        return logits, pull_back

    def _row_tensors(self) -> tuple[str, ...]:
        return *super()._row_tensors(), "tilt", "center", "log_deduction"


def factorized_labels(abductions: Tensor, deduction: Tensor, domain: Tensor) -> Tensor:
    """Return log P_s(y | x) (C, n) of rows in their own domains (n,).

    ``abductions`` (K, G, n) are logits of the groups in every domain, ``deduction`` (G, C, n) those
    of the labels in every group.
    """
    own = abductions[domain, :, torch.arange(len(domain), device=domain.device)].T
    log_a = torch.log_softmax(own, dim=0)
    return torch.logsumexp(log_a.unsqueeze(1) + torch.log_softmax(deduction, dim=1), dim=0)


def entry_of_label(values: Tensor, y: Tensor) -> Tensor:
    """Return the entry (..., n) of ``values`` (..., C, n) for the label of each row."""
    return values.gather(-2, y.expand(*values.shape[:-2], 1, -1)).squeeze(-2)
