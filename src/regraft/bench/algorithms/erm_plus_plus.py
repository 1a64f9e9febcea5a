"""ERM++: the classifier first, then everything, and predictions by an average of the weights.

Its search for the learning rate on a schedule, a script of its own in DomainBed, is not here. With
``lars``, at which DomainBed's own code stops, LARS takes the place of Adam.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regraft.bench.algorithms.base import Task, algorithm
from regraft.bench.algorithms.erm import ERM, MAIN
from regraft.bench.networks.domainbed import make_classifier, make_featurizer
from regraft.bench.networks.lars import LARS
from regraft.bench.protocol.spaces import ten_to

LINEAR = "linear"
FIRST_AVERAGED = 600  # steps before the average begins


@algorithm("ERMPlusPlus", {"linear_lr": ten_to(5e-5, -5, -3.5)})
class ERMPlusPlus(ERM):
    """Plain losses; ``average`` is the mean of the network's weights from some step on."""

    n_averaged: Tensor
    partial_steps = "linear_steps"

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        super().__init__(task, hparams, generator)
        make = LARS if hparams.get("lars") else self.adam
        for name, trained, rate in ((MAIN, self, "lr"), (LINEAR, self.classifier, "linear_lr")):
            self.optimizers[name] = make(
                trained.parameters(), lr=hparams[rate], weight_decay=hparams["weight_decay"]
            )
        featurizer, n_features = make_featurizer(
            task.input_shape, hparams, generator, compat=task.compat
        )
        classifier = make_classifier(n_features, task.n_classes, hparams)
        self.average = nn.Sequential(featurizer, classifier).requires_grad_(False)
        self.average.load_state_dict(nn.Sequential(self.featurizer, self.classifier).state_dict())
        self.register_buffer("n_averaged", torch.zeros(()))

    def variant(self, step: int) -> tuple[bool, bool]:
        """Return whether everything is trained, and whether weights are averaged yet."""
        return step > self.hparams["linear_steps"], step + 1 >= FIRST_AVERAGED

    def update(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Take a step of the classifier or of everything, then average."""
        is_full, is_averaged = self.variant(step)
        network, rows = nn.Sequential(self.featurizer, self.classifier), x.flatten(0, 1)
        loss = functional.cross_entropy(network(rows), y.flatten())
        self.descend(loss, MAIN if is_full else LINEAR)
        with torch.no_grad():
            self.n_averaged += is_averaged
            for name, mean in self.average.state_dict().items():
                if "num_batches_tracked" not in name:
                    value = network.state_dict()[name]
                    n = self.n_averaged
                    mean.copy_((mean * n + value) / (1 + n) if is_averaged else value)
            if not self.hparams["freeze_bn"]:
                self.average(rows)  # for the statistics of batch normalization
        return {"loss": loss.detach()}

    def predict(self, x: Tensor) -> Tensor:
        """Return logits (n, C) by the averaged weights."""
        was_training = self.average.training
        logits: Tensor = self.average.eval()(x)
        self.average.train(was_training)
        return logits
