"""Models of hidden groups, which say of a row with a label how likely each group is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from regraft.core.whitening import chunks_of


@dataclass(frozen=True)
class GroupModels:
    """Models of the groups, one for each fold of the rows, fitted without it.

    A row x of class c has the score ``weights[f, c] · x + offsets[f, c]``, along which the groups
    are normal with these means and variances.
    """

    weights: Tensor  # (F, C, d)
    offsets: Tensor  # (F, C)
    mean: Tensor  # (F, C, G)
    variance: Tensor  # (F, C)
    log_prior: Tensor  # (F, C, G) of the groups in a class, with the same mass for each source

    @cached_property
    def maps_by_fold(self) -> Tensor:
        """Logits (F, C, G, d + 1) of P(u | x, y) on ``[x, 1]`` of each model.

        They are linear, because the groups have the same variance along a score.
        """
        slope = self.mean / self.variance.unsqueeze(2)
        level = self.log_prior + slope * (self.offsets.unsqueeze(2) - 0.5 * self.mean)
        coef = slope.unsqueeze(3) * self.weights.unsqueeze(2)
        return torch.cat([coef, level.unsqueeze(3)], dim=3)

    @cached_property
    def maps(self) -> Tensor:
        """Logits (C, G, d + 1) of P(u | x, y) on ``[x, 1]``, the mean over the models."""
        return self.maps_by_fold.mean(dim=0)

    def log_posterior(self, X: Tensor, y: Tensor) -> Tensor:
        """Return log P(u | x, y) (n, G) of new rows."""
        logits = self.mean.new_empty((len(X), self.mean.shape[2]))
        for rows in chunks_of(X):
            every = torch.einsum("nd,cgd->ncg", X[rows].to(self.maps), self.maps[..., :-1])
            chosen = y[rows, None, None].expand(-1, 1, logits.shape[1])
            logits[rows] = every.gather(1, chosen).squeeze(1) + self.maps[y[rows], :, -1]
        return torch.log_softmax(logits, dim=1)
