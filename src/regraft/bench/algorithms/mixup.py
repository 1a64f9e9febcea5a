"""Mixup between domains: rows and labels of one domain blended into those of another."""

from __future__ import annotations

import torch
from torch import Tensor

from regraft.bench.algorithms.base import algorithm
from regraft.bench.algorithms.erm import ERM, domain_losses
from regraft.bench.protocol.spaces import ten_to


@algorithm("Mixup", {"mixup_alpha": ten_to(0.2, -1, 1)})
class Mixup(ERM):
    """Mixup of each domain with the next in a random ring of domains."""

    def objective(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return the mean loss on the blended rows."""
        ring = torch.rand(len(x), generator=self.generator, device=x.device).argsort()
        following = ring.roll(-1)
        alpha = self.hparams["mixup_alpha"]
        share = draw_shares(alpha, len(x), x.device, self.generator).to(x.dtype)
        wide = share.view(-1, *[1] * (x.dim() - 1))
        logits = self.through(self.predict, wide * x[ring] + (1 - wide) * x[following])
        losses = share * domain_losses(logits, y[ring])
        return {"loss": (losses + (1 - share) * domain_losses(logits, y[following])).mean()}


def draw_shares(alpha: float, n: int, device: torch.device, generator: torch.Generator) -> Tensor:
    """Draw (n,) from Beta(alpha, alpha): the part of one gamma variate in the sum of two."""
    # Small alphas make tiny variates: in single precision both would too often be zero.
    alphas = torch.full((2, n), alpha, dtype=torch.double, device=device)
    gammas = torch._standard_gamma(alphas, generator=generator)
    gammas = gammas.clamp_min(torch.finfo(torch.double).tiny)
    return gammas[0] / gammas.sum(dim=0)
