"""Risk extrapolation: the losses in the domains should be equal."""

from __future__ import annotations

from torch import Tensor

from regraft.bench.algorithms.annealed_penalty import Annealed, annealed_space
from regraft.bench.algorithms.base import algorithm


@algorithm("VREx", annealed_space("vrex", 1e1))
class VREx(Annealed):
    """Penalty on the variance of the domains' losses."""

    prefix = "vrex"

    def penalty(self, logits: Tensor, y: Tensor, losses: Tensor) -> Tensor:
        """Return the population variance, which is zero for one domain."""
        return losses.var(correction=0)
