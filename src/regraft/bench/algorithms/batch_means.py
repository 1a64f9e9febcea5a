"""Means over consecutive rows, for algorithms that use unlabelled batches."""

from __future__ import annotations

import torch
from torch import Tensor

# Number of rows that DomainBed predicts together. Predicting a domain in parts of a multiple of
# this size changes nothing.
EVALUATION_BATCH = 64


def group_means(rows: Tensor, size: int) -> Tensor:
    """Return for each of the ``rows`` (n, ...) the mean of its group, in the same shape.

    A group is ``size`` consecutive rows; the last may be smaller.
    """
    whole = len(rows) - len(rows) % size
    parts = [part for part in (rows[:whole], rows[whole:]) if len(part)]
    groups = [part.reshape(-1, min(size, len(part)), *part.shape[1:]) for part in parts]
    return torch.cat([g.mean(1, keepdim=True).expand_as(g).flatten(0, 1) for g in groups])
