"""Likelihood of labels under abduction and deduction maps of unobserved groups."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regraft.core.whitening import row_chunks

Shift = Literal["prior", "full"]
Maps = tuple[Tensor, Tensor]  # A (K, k, r) and D (k, r, C) on whitened rows

_MAX_CHUNK_ENTRIES = 400_000  # of a temporary array


@dataclass(frozen=True)
class LatentLikelihood:
    """Penalized likelihood of maps A (K, k, r) and D (k, r, C) on whitened rows.

    A domain that lacks a class says nothing about it: the likelihood of its labels is that given
    one of the classes that it has.
    """

    Z: Tensor  # (n, k) sorted by domain, with a constant 1
    y: Tensor  # (n,)
    weight: Tensor  # (n,)
    slices: tuple[slice, ...]  # the rows of each domain
    present: Tensor  # (K, C) whether a domain has a class
    groups: int
    classes: int
    shift: Shift
    ridge: float

    def negative_log_likelihood(
        self, flat: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64]]:
        """Return minus the penalized log-likelihood of packed maps, and its gradient."""
        A, D = self.unpack(flat)
        # Averaged over domains: maps that all of them share cost the same under both shifts.
        value = -self.ridge * float(A.square().sum() / len(A) + D.square().sum())
        to_A, to_D = -2 * self.ridge / len(A) * A, -2 * self.ridge * D
        for s, rows in self.chunks():
            Z, weight = self.Z[rows].to(A.dtype), self.weight[rows]
            log_a, log_d = log_maps(Z, A[s], D)
            labels = self.y[rows].expand(self.groups, 1, -1)
            joint = log_a + log_d.gather(1, labels).squeeze(1)
            likelihood = torch.logsumexp(joint, dim=0)
            value += float(weight @ likelihood)
            posterior = joint.sub_(likelihood).exp_().mul_(weight)  # (r, rows)
            if bool(self.present[s].all()):
                to_A[s] += ((posterior - log_a.exp_().mul_(weight)) @ Z).T
                residual = log_d.exp_().mul_(-posterior.unsqueeze(1))
            else:
                known = log_a.unsqueeze(1) + log_d
                log_known = self.log_known(s, known)
                value -= float(weight @ log_known)
                known = (known - log_known).exp_().mul_(weight)
                known *= self.present[s].to(known).unsqueeze(1)  # P(u, y | x, a class it has)
                prior = known.sum(dim=1)
                to_A[s] += ((posterior - prior) @ Z).T
                residual = log_d.exp_().mul_((prior - posterior).unsqueeze(1)).sub_(known)
            residual.scatter_add_(1, labels, posterior.unsqueeze(1))
            to_D += (residual.flatten(0, 1) @ Z).T.reshape(D.shape)
        return -value, -self.pack(to_A, to_D)

    def log_known(self, s: int, joint: Tensor) -> Tensor:
        """Return the log-probability (n,) of the classes that domain s has.

        ``joint`` (r, C, n) is log P(u, y | x).
        """
        return torch.logsumexp(joint[:, self.present[s]].flatten(0, 1), dim=0)

    def chunks(self) -> Iterator[tuple[int, slice]]:
        """Yield the index of each domain with slices of its rows."""
        for s, rows in enumerate(self.slices):
            width = self.groups * (self.classes + 1)
            for chunk in row_chunks(rows.stop - rows.start, width, _MAX_CHUNK_ENTRIES):
                yield s, slice(rows.start + chunk.start, rows.start + chunk.stop)

    def pack(self, A: Tensor, D: Tensor) -> NDArray[np.float64]:
        """Flatten the free numbers of the maps; an isometry, so that it packs gradients too."""
        if self.shift == "prior":
            A = torch.cat([A[:, :-1].sum(dim=0) / math.sqrt(len(A)), A[:, -1]])
        return torch.cat([A.flatten(), D.flatten()]).cpu().numpy()

    def unpack(self, flat: NDArray[np.float64]) -> Maps:
        """Return the maps that :meth:`pack` flattened."""
        K, k, r = len(self.slices), self.Z.shape[1], self.groups
        numbers = torch.as_tensor(flat, device=self.Z.device)
        A, D = numbers.tensor_split([len(numbers) - k * r * self.classes])
        if self.shift == "prior":
            slopes, intercepts = A.reshape(-1, r).tensor_split([k - 1])
            slopes = (slopes / math.sqrt(K)).expand(K, -1, -1)
            A = torch.cat([slopes, intercepts.unsqueeze(1)], dim=1)
        return A.reshape(K, k, r), D.reshape(k, r, self.classes)

    def joint(self, maps: Maps) -> Iterator[tuple[slice, Tensor]]:
        """Yield slices of the rows with their log P(u, y | x) (r, C, rows)."""
        for s, rows in self.chunks():
            log_a, log_d = log_maps(self.Z[rows].to(maps[0].dtype), maps[0][s], maps[1])
            yield rows, log_d.add_(log_a.unsqueeze(1))


def log_maps(Z: Tensor, abduction: Tensor, deduction: Tensor) -> tuple[Tensor, Tensor]:
    """Return log P(u | x) (r, n) and log P(y | x, u) (r, C, n), rows last for speed."""
    log_a = torch.log_softmax(abduction.T @ Z.T, dim=0)
    scores = deduction.flatten(1).T @ Z.T
    return log_a, torch.log_softmax(scores.reshape(*deduction.shape[1:], -1), dim=1)
