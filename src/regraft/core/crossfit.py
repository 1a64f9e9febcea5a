"""Heads applied only to rows that they have not seen.

A head knows the labels of the rows it was fitted on. Where rows are weighed by the disagreement
of heads, or compared by their losses, that knowledge would look like a difference between domains,
the more so the fewer rows a domain has. So each row is judged by heads fitted without its fold.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regraft.core.newton import losses
from regraft.core.whitening import chunks_of


@dataclass(frozen=True)
class CrossFit:
    """Pooled and source heads, fitted without each of F folds of the rows."""

    fold: Tensor  # (n,) the fold of each row
    pooled: Tensor  # (F, C, k)
    heads: Tensor  # (F, K, C, k)

    def logits(self, heads: Tensor, Z: Tensor) -> Tensor:
        """Return logits (..., n) of rows ``Z`` (n, k) under heads (F, ..., k) of their folds."""
        flat = heads.reshape(len(heads), -1, heads.shape[-1])
        logits = flat.new_empty((flat.shape[1], len(Z)))
        for rows in chunks_of(Z, flat.shape[0] * flat.shape[1] + Z.shape[1]):
            every = flat @ Z[rows].to(flat.dtype).T  # (F, ..., rows)
            own = self.fold[rows].expand(1, flat.shape[1], -1)
            logits[:, rows] = every.gather(0, own).squeeze(0)
        return logits.reshape(*heads.shape[1:-1], len(Z))

    def log_probabilities(self, heads: Tensor, Z: Tensor) -> Tensor:
        """Return log-probabilities (C, n) of rows under heads (F, C, k) fitted without them."""
        return torch.log_softmax(self.logits(heads, Z), dim=0)

    def pooled_losses(self, Z: Tensor, y: Tensor) -> Tensor:
        """Return the cross-entropy (n,) of each row under a pooled head fitted without it."""
        return losses(self.log_probabilities(self.pooled, Z).T, y)
