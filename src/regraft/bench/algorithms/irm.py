"""Invariant risk minimization: in every domain the same classifier should be optimal."""

from __future__ import annotations

from torch import Tensor

from regraft.bench.algorithms.annealed_penalty import Annealed, annealed_space
from regraft.bench.algorithms.base import algorithm


@algorithm("IRM", annealed_space("irm", 1e2))
class IRM(Annealed):
    """Penalty on the squared slope of each domain's loss as its logits are scaled."""

    prefix = "irm"

    def penalty(self, logits: Tensor, y: Tensor, losses: Tensor) -> Tensor:
        """Return the mean square, estimated without bias by a product over two halves of rows."""
        even = scale_slopes(logits[:, ::2], y[:, ::2])
        odd = scale_slopes(logits[:, 1::2], y[:, 1::2])
        return (even * odd).mean()


def scale_slopes(logits: Tensor, y: Tensor) -> Tensor:
    """Return derivatives (K,) of the cross-entropies of s · ``logits`` (K, n, C) by s, at s = 1."""
    expected = (logits.softmax(dim=-1) * logits).sum(dim=-1)
    true = logits.gather(-1, y.unsqueeze(-1)).squeeze(-1)
    return (expected - true).mean(dim=1)
