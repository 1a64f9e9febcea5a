"""Transfer and TRM: predictors that still hold when they are carried to another domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regraft.bench.algorithms.base import Task, algorithm
from regraft.bench.algorithms.erm import ERM, MAIN, OBJECTIVE, domain_losses
from regraft.bench.networks.domainbed import is_plain, make_classifier
from regraft.bench.protocol.spaces import Hparam, choice, ten_to, uniform, whole_choice, whole_power

_RATE = 0.1  # of the steps of the domains' own heads
_STEPS = 30  # of theirs in one step of the network
_TERMS = 10  # of the series for the inverse of the Hessian
_LARGEST = 10.0  # beyond which the series is taken to diverge


@algorithm(
    "Transfer",
    {
        "t_lambda": ten_to(1.0, -2, 1),
        "delta": uniform(2.0, 0.1, 3.0),
        "d_steps_per_g": whole_choice(10, [1, 2, 5]),
        "weight_decay_d": ten_to(0.0, -6, -2),
        "gda": Hparam(False, lambda state: True),
        "beta1": choice(0.5, [0.0, 0.5]),
        "lr_d": ten_to(1e-3, -4.5, -2.5),
    },
)
class TransferableFeatures(ERM):
    """Loss, then the gap between domains under a classifier near by that makes it wide.

    With ``gda`` steps are plain descent and ascent. DomainBed then gives its optimizer the
    adversary's weights instead of the network's, which stays as it was; with ``compat`` so here.
    """

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        super().__init__(task, hparams, generator)
        self.adversary = make_classifier(self.n_features, task.n_classes, hparams)
        self.adversary.load_state_dict(self.classifier.state_dict())

    def update(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Take a step down the loss and one down the gap, then move the adversary."""
        loss = functional.cross_entropy(self.predict(x.flatten(0, 1)), y.flatten())
        self._improve(loss)
        self._improve(self.gap(self.through(self.featurizer, x), y))
        classifier = list(self.classifier.parameters())
        adversary = list(self.adversary.parameters())
        with torch.no_grad():
            for mine, theirs in zip(classifier, adversary, strict=True):
                theirs.copy_(mine)
        is_plain_network = is_plain(self.featurizer)
        for i in range(self.hparams["d_steps_per_g"]):
            if i == 0 or not is_plain_network:
                with torch.no_grad():
                    features = self.through(self.featurizer, x)
            gap = self.gap(features, y)
            slopes = torch.autograd.grad(gap, adversary)
            with torch.no_grad():
                for theirs, slope in zip(adversary, slopes, strict=True):
                    theirs.add_(slope, alpha=self.hparams["lr_d"])
                self._stay_near(classifier, adversary)
        return {"loss": loss.detach(), "gap": gap.detach()}

    def gap(self, features: Tensor, y: Tensor) -> Tensor:
        """Return the weighted difference of the largest and the smallest loss of a domain."""
        losses = domain_losses(self.adversary(features), y)
        difference: Tensor = self.hparams["t_lambda"] * (losses.max() - losses.min())
        return difference

    def _improve(self, loss: Tensor) -> None:
        """Take a step of the network down ``loss``."""
        if not self.hparams["gda"]:
            self.descend(loss, MAIN)
            return
        if self.task.compat:
            return
        parameters = [*self.featurizer.parameters(), *self.classifier.parameters()]
        slopes = torch.autograd.grad(loss, parameters, allow_unused=True)
        with torch.no_grad():
            for parameter, slope in zip(parameters, slopes, strict=True):
                if slope is not None:
                    parameter.sub_(slope, alpha=self.hparams["lr"])

    def _stay_near(self, centre: list[nn.Parameter], moved: list[nn.Parameter]) -> None:
        """Project weights onto the ball of radius ``delta`` about others."""
        pairs = list(zip(centre, moved, strict=True))
        squares = [(theirs - mine).square().sum() for mine, theirs in pairs]
        distance = torch.stack(squares).sum().sqrt()
        ratio = self.hparams["delta"] / distance
        for mine, theirs in pairs:
            theirs.copy_(torch.where(ratio >= 1, theirs, mine + ratio * (theirs - mine)))


@algorithm(
    "TRM",
    {
        "cos_lambda": ten_to(1e-4, -5, 0),
        "iters": whole_power(200, 10, 0, 4),
        "groupdro_eta": ten_to(1e-2, -3, -1),
    },
)
class TRM(ERM):
    """Loss plus the losses in other domains of heads that fit one domain well.

    How such a head depends on the features enters by a series for the inverse of its Hessian.
    DomainBed's series misses its first term and has the second twice, and it changes the weights
    of the other domains before it takes the gradient, which has the new ones; with ``compat`` so
    here.
    """

    alpha: Tensor
    weights: Tensor
    biases: Tensor

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        super().__init__(task, {**hparams, "nonlinear_classifier": False}, generator)
        heads = [nn.Linear(self.n_features, task.n_classes) for _ in range(task.n_domains)]
        for name, tensors in (
            ("weights", [head.weight.detach() for head in heads]),  # (K, C, d)
            ("biases", [head.bias.detach() for head in heads]),  # (K, C)
        ):
            self.register_buffer(name, torch.stack(tensors))
        self.register_buffer("alpha", torch.ones(task.n_domains, task.n_domains).fill_diagonal_(0))

    def variant(self, step: int) -> bool:
        """Return whether losses in other domains count yet."""
        return step >= self.hparams["iters"] and self.task.n_domains > 1

    def objective(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return the loss, and from some step on the mean transferred loss beside it."""
        features = self.featurizer(x.flatten(0, 1))
        nll = functional.cross_entropy(self.classifier(features), y.flatten())
        transferred = nll.new_zeros(())
        if self.variant(step):
            transferred = self.transferred(features.view(*y.shape, -1), y)
        return {OBJECTIVE: nll + transferred, "nll": nll, "trm_loss": transferred}

    def transferred(self, features: Tensor, y: Tensor) -> Tensor:
        """Return the mean over domains of their heads' losses in the others, with a correction."""
        if self.hparams["class_balanced"]:
            self.weights.copy_(next(self.classifier.parameters()).detach())
        self.alpha.div_(self.alpha.sum(dim=1, keepdim=True))
        one_hot = functional.one_hot(y, self.task.n_classes).to(features)
        self.fit_heads(features.detach(), one_hot)
        weights = self.weights.clone()  # which must stay as they are until the gradient is taken
        # Row q: the losses of the head of domain q in all domains, each with its weight.
        logits = torch.einsum("qcd,knd->qknc", weights, features) + self.biases[:, None, None]
        alpha = self.alpha.clone()
        plain = -(logits.log_softmax(-1) * one_hot).sum(-1).mean(-1)
        losses = plain * alpha
        own = logits.diagonal().movedim(-1, 0)  # (K, n, C)
        errors = logits.softmax(-1) - one_hot
        n = y.shape[1]
        with torch.no_grad():
            scaled = alpha[..., None, None] * errors / n
            slopes = torch.einsum("qknc,knd->qcd", scaled, features)
            directions = self.invert(slopes, own.softmax(-1), features)
        along = torch.einsum("knc,kcd,knd->k", own.softmax(-1) - one_hot, directions, features) / n
        self.alpha.mul_((self.hparams["groupdro_eta"] * losses.detach()).exp())
        if self.task.compat:  # the value with the old weights, the gradient with the new ones
            losses = losses.detach() + self.alpha * (plain - plain.detach())
        total: Tensor = (losses.sum(dim=1) - self.hparams["cos_lambda"] * along).mean()
        return total

    @torch.no_grad()
    def fit_heads(self, features: Tensor, one_hot: Tensor) -> None:
        """Fit each domain's head to its ``features`` (K, n, d) by some steps of descent."""
        n = features.shape[1]
        for _ in range(_STEPS):
            logits = features @ self.weights.mT + self.biases[:, None]
            errors = (logits.softmax(-1) - one_hot) / n
            self.weights.sub_(_RATE * (errors.mT @ features))
            self.biases.sub_(_RATE * errors.sum(dim=1))

    def invert(self, slopes: Tensor, shares: Tensor, features: Tensor) -> Tensor:
        """Return the inverses of the heads' Hessians times ``slopes`` (K, C, d), as a series.

        The series of a domain ends where an entry gets too large. ``shares`` (K, n, C) are the
        probabilities of the heads in their own domains.
        """
        term, total = slopes, slopes
        is_open = torch.ones(len(slopes), 1, 1, dtype=torch.bool, device=slopes.device)
        for i in range(_TERMS):
            moved = features @ term.mT
            moved = shares * (moved - (shares * moved).sum(-1, keepdim=True))
            term = term - moved.mT @ features / features.shape[1]
            following = 2 * term if i == 0 and self.task.compat else total + term
            total = torch.where(is_open, following, total)
            is_open = is_open & (total.abs().amax(dim=(1, 2), keepdim=True) <= _LARGEST)
        return total
