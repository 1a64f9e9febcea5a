"""Causal robust optimization: empirical risk minimization, then the game on its features."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from regraft.bench.algorithms.base import algorithm
from regraft.bench.algorithms.erm import ERM
from regraft.bench.hparams import SPACES
from regraft.bench.spaces import Group, Hparam, Space, constant
from regraft.domains import Domains, check_domains
from regraft.families import hull_adversary
from regraft.game import play
from regraft.heads import fit_source_heads
from regraft.learner import Learner

_NEVER = -1e9  # the logit of a class that no source has


def cro_space(group: Group) -> Space:
    """Of the hull; the radius is an assumption, which no source validation can judge.

    Colours may turn round as in Colored MNIST; among photographs, sketches or reviews what the
    sources disagree about is assumed to move by one nat.
    """
    return {
        "cro_phase1_steps": constant(500),
        "cro_radius": constant(8.0 if group == "small images" else 1.0),
        **{name: Hparam(default, draw) for name, (default, draw) in SPACES["hull"].items()},
    }


@algorithm("CRO", cro_space)
class CRO(ERM):
    """Phase 1 trains as ERM does; Phase 2 answers the worst plausible domain with a new head.

    A run has one record, after Phase 2. Checkpoints of Phase 1 are plain ERM's: they do better on
    the sources, so a selection among them would never choose what was asked for.
    """

    def schedule(self, steps: int, every: int) -> list[int]:
        """The end of Phase 1."""
        return [min(steps, self.hparams["cro_phase1_steps"]) - 1]

    def conclude(self, sources: Iterable[tuple[int, Tensor, Tensor]]) -> None:
        """Play the game on the features of the training rows; its answer is the new classifier."""
        domains = self._embed(sources)
        found = fit_source_heads(domains)
        objective = self.hparams["objective"]
        _, adversary = hull_adversary(
            found,
            radius=self.hparams["cro_radius"],
            rank=None,
            objective=objective,
            surrogate="reweighted",
        )
        outcome = play(
            adversary,
            Learner(ridge=found.learner_ridge(self.hparams["ridge"]), objective=objective),
            found.pooled,
            tolerance=self.hparams["cro_gap_eps"],
        )
        head = found.whitening.to_features(outcome.heads[-1]).float()
        self.classifier = self._as_classifier(head, torch.as_tensor(domains.classes))

    @torch.no_grad()
    def _as_classifier(self, head: Tensor, classes: Tensor) -> nn.Linear:
        """The head (c, d + 1), whose rows are for ``classes``, as a layer for all of them."""
        layer = nn.Linear(self.n_features, self.task.n_classes, device=head.device)
        layer.weight.zero_()
        layer.bias.fill_(_NEVER)
        layer.weight[classes], layer.bias[classes] = head[:, :-1], head[:, -1]
        return layer

    @torch.no_grad()
    def _embed(self, sources: Iterable[tuple[int, Tensor, Tensor]]) -> Domains:
        self.eval()
        features, labels, domains = [], [], []
        for domain, x, y in sources:
            features.append(self.featurizer(x).double().cpu())
            labels.append(y.cpu())
            domains.append(torch.full((len(y),), domain))
        self.train()
        arrays = (torch.cat(parts).numpy() for parts in (features, labels, domains))
        return check_domains(*arrays, device=str(self.task.device))
