"""Representation self-challenging: learn without the features that matter most."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from regraft.bench.algorithms.base import algorithm
from regraft.bench.algorithms.erm import ERM
from regraft.bench.protocol.spaces import uniform


@algorithm(
    "RSC",
    {"rsc_f_drop_factor": uniform(1 / 3, 0.0, 0.5), "rsc_b_drop_factor": uniform(1 / 3, 0.0, 0.5)},
)
class RSC(ERM):
    """Mutes, in the rows that suffer most from it, the features of the largest gradients."""

    def objective(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return the loss on the features that are kept."""
        features, labels = self.featurizer(x.flatten(0, 1)), y.flatten()
        kept = self.kept(features, labels)
        return {"loss": functional.cross_entropy(self.classifier(features * kept), labels)}

    def kept(self, features: Tensor, y: Tensor) -> Tensor:
        """Return a mask of the ``features`` (n, d), with labels ``y`` (n,), that are not muted."""
        leaf = features.detach().requires_grad_()
        logits = self.classifier(leaf)
        (gradient,) = torch.autograd.grad(_of_class(logits, y).sum(), leaf)
        f_share, b_share = self.hparams["rsc_f_drop_factor"], self.hparams["rsc_b_drop_factor"]
        with torch.no_grad():
            # Strictly below: even a share of zero mutes the largest.
            weak = gradient < gradient.quantile(1 - f_share, dim=1, keepdim=True)
            muted = self.classifier(leaf * weak)
            harm = _of_class(logits.softmax(1), y) - _of_class(muted.softmax(1), y)
            return weak | (harm < harm.quantile(1 - b_share)).unsqueeze(1)


def _of_class(values: Tensor, y: Tensor) -> Tensor:
    """Return the entries (n,) of ``values`` (n, C) for the classes ``y`` (n,)."""
    return values.gather(1, y.unsqueeze(1)).squeeze(1)
