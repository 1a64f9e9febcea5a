"""Means over groups of consecutive rows, for the algorithms that look at unlabelled batches."""

from __future__ import annotations

import torch
from torch import Tensor

# The rows that DomainBed predicts together. Parts of a domain that hold a multiple of so many rows
# can be predicted one after another: nothing changes.
EVALUATION_BATCH = 64


def group_means(rows: Tensor, size: int) -> Tensor:
    """For each of the ``rows`` (n, ...) the mean of its group, in the same shape.

    A group is ``size`` rows that follow one another; the last may be smaller.
    """
    whole = len(rows) - len(rows) % size
    parts = [part for part in (rows[:whole], rows[whole:]) if len(part)]
    groups = [part.reshape(-1, min(size, len(part)), *part.shape[1:]) for part in parts]
    return torch.cat([g.mean(1, keepdim=True).expand_as(g).flatten(0, 1) for g in groups])
