"""Style-agnostic networks: the content of features counts, not their mean and spread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regraft.bench.algorithms.base import Algorithm, Task, algorithm
from regraft.bench.networks.domainbed import is_plain, make_classifier, make_featurizer
from regraft.bench.protocol.spaces import ten_to

FEATURES, CONTENT, STYLE = "features", "content", "style"
_EPSILON = 1e-5


@algorithm("SagNet", {"sag_w_adv": ten_to(0.1, -2, 1)})
class SagNet(Algorithm):
    """Content classifier trained in others' styles, on features that hide the class from style.

    The style of a row is the mean and the variance of its features, the content the rest.
    """

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        super().__init__(task, hparams, generator)
        self.featurizer, n_features = make_featurizer(
            task.input_shape, hparams, generator, compat=task.compat
        )
        self.content = make_classifier(n_features, task.n_classes, hparams)
        self.style = make_classifier(n_features, task.n_classes, hparams)
        modules = {FEATURES: self.featurizer, CONTENT: self.content, STYLE: self.style}
        rates = {name: hparams[name] for name in ("lr", "weight_decay")}
        for name, module in modules.items():
            self.optimizers[name] = self.adam(module.parameters(), **rates)

    def predict(self, x: Tensor) -> Tensor:
        """Return logits (n, C) of the content classifier."""
        logits: Tensor = self.content(self.featurizer(x))
        return logits

    def update(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Take three steps: features with content, style, and features against style."""
        x, y = x.flatten(0, 1), y.flatten()
        losses = {"loss_c": self.learn_content(x, y)}
        features = self.featurizer(x)
        losses["loss_s"] = self.learn_style(features.detach(), y)
        if not is_plain(self.featurizer):
            features = self.featurizer(x)
        losses["loss_adv"] = self.hide_style(features)
        return {name: loss.detach() for name, loss in losses.items()}

    def learn_content(self, x: Tensor, y: Tensor) -> Tensor:
        """Train featurizer and content classifier to find the class in any style."""
        loss = functional.cross_entropy(self.content(self.mix_styles(self.featurizer(x))), y)
        self.descend(loss, FEATURES, CONTENT)
        return loss

    def learn_style(self, features: Tensor, y: Tensor) -> Tensor:
        """Train the style classifier to find the class that a style belongs to."""
        loss = functional.cross_entropy(self.style(self.swap_contents(features)), y)
        self.descend(loss, STYLE)
        return loss

    def hide_style(self, features: Tensor) -> Tensor:
        """Train the featurizer until the style classifier finds all classes equally likely."""
        logits = self.style(self.swap_contents(features))
        loss: Tensor = -self.hparams["sag_w_adv"] * functional.log_softmax(logits, dim=1).mean()
        self.descend(loss, FEATURES)
        return loss

    def mix_styles(self, features: Tensor) -> Tensor:
        """Return features (n, d) in styles between their own and another row's."""
        content, mean, variance = split(features)
        other, share = self.shuffle(features), self.draw(features)[:, None]
        mean = share * mean + (1 - share) * mean[other]
        variance = share * variance + (1 - share) * variance[other]
        return join(content, mean, variance)

    def swap_contents(self, features: Tensor) -> Tensor:
        """Return features (n, d) with the content of another row, without gradient through it."""
        content, mean, variance = split(features)
        return join(content[self.shuffle(features)].detach(), mean, variance)

    def shuffle(self, features: Tensor) -> Tensor:
        """Return a random permutation of the rows."""
        return self.draw(features).argsort()

    def draw(self, features: Tensor) -> Tensor:
        """Draw a number between zero and one for each row."""
        return torch.rand(len(features), generator=self.generator, device=features.device)


def split(features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Split rows (n, d) of ``features`` into content (n, d), mean and variance (n, 1)."""
    mean, variance = features.mean(dim=1, keepdim=True), features.var(dim=1, keepdim=True)
    return (features - mean) / (variance + _EPSILON).sqrt(), mean, variance


def join(content: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Rebuild features from what ``split`` returns."""
    return content * (variance + _EPSILON).sqrt() + mean
