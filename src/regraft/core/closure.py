"""Directed Hausdorff distances between supports, and the closure residual built on them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import torch
from scipy.spatial import distance  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor

from regraft.core.transplant import Witness

_CHUNK_ENTRIES = 4_000_000
# The matrix-product form loses half the digits of small distances to cancellation.
_EXACT = "donot_use_mm_for_euclid_dist"


def directed_hausdorff(points: Tensor, reference: Tensor) -> float:
    """Return the largest distance from a row of ``points`` to the set ``reference``, exactly.

    The cost is quadratic at worst. On the CPU, scipy stops early and is far cheaper when the two
    sets lie apart. On other devices the distances are computed in row chunks of bounded memory. An
    empty set raises `ValueError`.
    """
    _check_rows(points, reference)
    points, reference = points.detach(), reference.detach()
    if points.device.type != "cpu":
        return _chunked_hausdorff(points, reference)
    return float(distance.directed_hausdorff(points.numpy(), reference.numpy())[0])


def minibatch_hausdorff(points: Tensor, reference: Tensor) -> Tensor:
    """Return the directed Hausdorff distance as a differentiable scalar.

    The pair that attains it is searched in row chunks of bounded memory. The gradient is that of
    this one pair, and zero where the distance is zero. An empty set raises `ValueError`.
    """
    _check_rows(points, reference)
    with torch.no_grad():
        # A matrix product may confuse pairs that are equally far to half the digits, no others.
        distances, columns = _nearest(points, reference, mode="use_mm_for_euclid_dist")
        row = distances.argmax()
        column = columns[row]
    gap: Tensor = torch.linalg.vector_norm(points[row] - reference[column])
    return gap


def closure_residual(
    witness: Witness, rows: Sequence[Tensor], *, max_rows: int | None = 2000, seed: int = 0
) -> float:
    """Return how far transplants between sources leave the observed supports.

    For every ordered pair of sources, take the directed Hausdorff distance from T_{s->s'}(rows[s])
    to rows[s']. The largest of them is returned: the smallest epsilon for which the sources satisfy
    `def:eps-closure`. (Eq. `match` sums them instead.) With one source it is zero. The unseen
    target has no rows, so its own closure stays an assumption.

    ``rows`` holds the rows phi-tilde (n_s, d) of each of the K sources. The exact distance is
    quadratic, so larger samples are thinned to ``max_rows``, at random by ``seed``; the result is
    then an estimate. None keeps all rows.
    """
    if len(rows) != len(witness.sources):
        raise ValueError(f"{len(witness.sources)} sources need as many samples, got {len(rows)}")
    generator = torch.Generator().manual_seed(seed)
    supports = [_thin(sample, max_rows, generator).to(witness.basis.dtype) for sample in rows]
    pairs = permutations(range(len(supports)), 2)
    moved = ((witness.transplant(s, t)(supports[s]), supports[t]) for s, t in pairs)
    return max((directed_hausdorff(*pair) for pair in moved), default=0.0)


def _thin(sample: Tensor, max_rows: int | None, generator: torch.Generator) -> Tensor:
    if max_rows is None or len(sample) <= max_rows:
        return sample
    kept = torch.randperm(len(sample), generator=generator)[:max_rows]
    return sample[kept.to(sample.device)]


def _chunked_hausdorff(points: Tensor, reference: Tensor, entries: int = _CHUNK_ENTRIES) -> float:
    return float(_nearest(points, reference, entries)[0].max())


def _nearest(
    points: Tensor, reference: Tensor, entries: int = _CHUNK_ENTRIES, mode: str = _EXACT
) -> tuple[Tensor, Tensor]:
    """Return distances (n,) to the nearest rows of `reference`, and the indices (n,) of these rows.

    At most about `entries` distances are held in memory at once.
    """
    chunks = torch.split(points, max(1, entries // len(reference)))
    nearest = [_distances(chunk, reference, mode).min(dim=1) for chunk in chunks]
    return torch.cat([n.values for n in nearest]), torch.cat([n.indices for n in nearest])


def _check_rows(points: Tensor, reference: Tensor) -> None:
    if not len(points) or not len(reference):
        raise ValueError("a Hausdorff distance needs at least one row in both sets")


def _distances(points: Tensor, reference: Tensor, mode: str = _EXACT) -> Tensor:
    return torch.cdist(points, reference, compute_mode=mode)
