"""Objectives of DomainBed's later algorithms, row by row and pair by pair, to check ours by.

Each takes the algorithm for its networks and settings only. ``again`` repeats its random draws, and
``memory`` keeps what later steps depend on.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regraft.bench.algorithms.mixup import draw_shares

ce = functional.cross_entropy


@dataclass
class Slow:
    """What an objective may use beside the networks."""

    model: Any
    again: torch.Generator
    memory: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.model.hparams[name]


def means(values: list[Tensor]) -> Tensor:
    return torch.stack(values).mean()


def by_domain(slow: Slow, x: Tensor, y: Tensor) -> list[Tensor]:
    return [ce(slow.model.predict(rows), labels) for rows, labels in zip(x, y, strict=True)]


def kernel(a: Tensor, b: Tensor, gammas: tuple[float, ...]) -> Tensor:
    total = torch.zeros((), dtype=a.dtype)
    for left in a:
        for right in b:
            square = ((left - right) ** 2).sum()
            total = total + sum(torch.exp(-gamma * square) for gamma in gammas)
    return total / (len(a) * len(b))


def mmd(a: Tensor, b: Tensor, gammas: tuple[float, ...]) -> Tensor:
    return kernel(a, a, gammas) + kernel(b, b, gammas) - 2 * kernel(a, b, gammas)


def coral(a: Tensor, b: Tensor) -> Tensor:
    means_differ = ((a.mean(0) - b.mean(0)) ** 2).mean()
    return means_differ + ((a.T.cov() - b.T.cov()) ** 2).mean()


def sd(slow: Slow, step: int, x: Tensor, y: Tensor) -> Tensor:
    logits = torch.cat([slow.model.predict(rows) for rows in x])
    return ce(logits, y.flatten()) + slow["sd_reg"] * (logits**2).mean()


def iga(slow: Slow, step: int, x: Tensor, y: Tensor) -> Tensor:
    weights = list(slow.model.parameters())
    losses = by_domain(slow, x, y)
    slopes = [torch.autograd.grad(loss, weights, create_graph=True) for loss in losses]
    mean = [torch.stack(parts).mean(0).detach() for parts in zip(*slopes, strict=True)]
    pairs = [(g, m) for own in slopes for g, m in zip(own, mean, strict=True)]
    return means(losses) + slow["penalty"] * sum(((g - m) ** 2).sum() for g, m in pairs)


def fishr(slow: Slow, step: int, x: Tensor, y: Tensor) -> Tensor:
    weights = list(slow.model.classifier.parameters())
    variances = []
    for domain, (rows, labels) in enumerate(zip(x, y, strict=True)):
        slopes = []
        for row, label in zip(rows, labels, strict=True):
            loss = ce(slow.model.predict(row[None]), label[None])
            parts = torch.autograd.grad(loss, weights, create_graph=True)
            slopes.append(torch.cat([part.flatten() for part in parts]))
        stacked = torch.stack(slopes)
        variance = ((stacked - stacked.mean(0)) ** 2).mean(0)
        before = slow.memory.get(f"{domain}", torch.zeros_like(variance))
        running = slow["ema"] * before + (1 - slow["ema"]) * variance
        slow.memory[f"{domain}"] = running.detach()
        variances.append(running / (1 - slow["ema"]))
    mean = torch.stack(variances).mean(0)
    penalty = means([((variance - mean) ** 2).mean() for variance in variances])
    weight = slow["lambda"] if step >= slow["penalty_anneal_iters"] else 0.0
    return means(by_domain(slow, x, y)) + weight * penalty


def bottleneck(slow: Slow, step: int, x: Tensor, y: Tensor) -> Tensor:
    spread = means([slow.model.featurizer(rows).var(0).mean() for rows in x])
    weight = slow["ib_lambda"] if step >= slow["ib_penalty_anneal_iters"] else 0.0
    return means(by_domain(slow, x, y)) + weight * spread


def bottleneck_irm(slow: Slow, step: int, x: Tensor, y: Tensor) -> Tensor:
    penalties = []
    for rows, labels in zip(x, y, strict=True):
        scale = torch.ones((), dtype=x.dtype, requires_grad=True)
        logits = slow.model.predict(rows) * scale
        halves = [ce(logits[i::2], labels[i::2]) for i in (0, 1)]
        slopes = [torch.autograd.grad(half, scale, create_graph=True)[0] for half in halves]
        penalties.append(slopes[0] * slopes[1])
    weight = slow["irm_lambda"] if step >= slow["irm_penalty_anneal_iters"] else 1.0
    return bottleneck(slow, step, x, y) + weight * means(penalties)


def cad(slow: Slow, step: int, x: Tensor, y: Tensor) -> Tensor:
    """Row by row; the chosen rows are those of other domains, if flipped, else of the same."""
    conditional = type(slow.model).__name__ == "CondCAD"
    rows, labels = slow.model.featurizer(x.flatten(0, 1)), y.flatten().tolist()
    domains = [domain for domain in range(len(x)) for _ in range(x.shape[1])]
    losses = []
    for i, label in enumerate(labels):
        others = [j for j in range(len(labels)) if j != i]
        alike = [j for j in others if labels[j] == label]
        pool = alike if conditional else others
        chosen = [j for j in pool if domains[j] != domains[i]]
        if alike and chosen:
            close = {j: torch.exp(rows[i] @ rows[j] / slow["temperature"]) for j in pool}
            share = sum(close[j] for j in chosen) / sum(close[j] for j in pool)
            losses.append(-slow["temperature"] / 0.07 * torch.log(share))
    loss = ce(slow.model.classifier(rows), y.flatten())
    return loss + slow["lmbda"] * (means(losses) if losses else 0.0)


def causirl(slow: Slow, step: int, x: Tensor, y: Tensor) -> Tensor:
    features = [slow.model.featurizer(rows) for rows in x]
    cuts = torch.randint(x.shape[1], (len(x), 1), generator=slow.again).flatten().tolist()
    first = torch.cat([part[:cut] for part, cut in zip(features, cuts, strict=True)])
    second = torch.cat([part[cut:] for part, cut in zip(features, cuts, strict=True)])
    distance = torch.zeros((), dtype=x.dtype)
    if len(first) > 1 and len(second) > 1:
        is_mmd = type(slow.model).__name__.endswith("MMD")
        gammas = (0.001, 0.01, 0.1, 1, 10, 100, 1000)
        distance = mmd(first, second, gammas) if is_mmd else coral(first, second)
    return means(by_domain(slow, x, y)) + slow["mmd_gamma"] * distance


def eqrm(slow: Slow, step: int, x: Tensor, y: Tensor) -> Tensor:
    risks = torch.stack(by_domain(slow, x, y))
    if step < slow["eqrm_burnin_iters"]:
        return risks.mean()
    data, share = risks.sort().values, slow["eqrm_quantile"]
    width = 1.06 * data.std() * len(data) ** -0.2
    normal = torch.distributions.Normal
    ends = [
        normal(end, width).icdf(torch.tensor(share, dtype=torch.double))
        for end in (data[0], data[-1])
    ]
    middle = 0.5 * (ends[0] + ends[1])
    for _ in range(32):
        ends[int(normal(data, width).cdf(middle).mean() > share)] = middle
        middle = 0.5 * (ends[0] + ends[1])
    return middle


def rdm(slow: Slow, step: int, x: Tensor, y: Tensor) -> Tensor:
    risks = [
        ce(slow.model.predict(rows), labels, reduction="none")
        for rows, labels in zip(x, y, strict=True)
    ]
    loss = means([risk.mean() for risk in risks])
    if step < slow["rdm_penalty_anneal_iters"]:
        return loss
    worst = max(risks, key=lambda risk: float(risk.detach().mean()))
    everything = torch.cat(risks)
    gammas = (0.0001, 0.001, 0.01, 0.1, 1, 10, 100, 1000)
    matching = mmd(worst[:, None], everything[:, None], gammas)
    spread = everything.var() + worst.var()
    return loss + slow["rdm_lambda"] * matching + slow["variance_weight"] * spread


def self_reg(slow: Slow, step: int, x: Tensor, y: Tensor) -> Tensor:
    labels, n = y.flatten().tolist(), y.numel()
    orders = []
    for _ in range(2):
        draws = torch.rand(n, generator=slow.again).tolist()
        orders.append(sorted(range(n), key=lambda i, d=draws: (labels[i], d[i])))
    share = float(draw_shares(0.5, 1, x.device, slow.again))
    own = sorted(range(n), key=lambda i: labels[i])
    features = slow.model.featurizer(x.flatten(0, 1))
    logits, projected = slow.model.classifier(features), slow.model.projection(features)
    distances = torch.zeros((), dtype=x.dtype)
    for values, others, weight in ((logits, logits, 1.0), (features, projected, 0.3)):
        for i, a, b in zip(own, *orders, strict=True):
            mixed = share * others[a] + (1 - share) * others[b]
            alone, both = (values[i] - others[a]) ** 2, (values[i] - mixed) ** 2
            distances = distances + weight * (share * alone + (1 - share) * both).mean() / n
    loss = ce(logits, y.flatten())
    return loss + min(float(loss.detach()), 1.0) * distances


def trm(slow: Slow, step: int, x: Tensor, y: Tensor) -> Tensor:
    model, n = slow.model, len(x)
    features = [model.featurizer(rows) for rows in x]
    loss = ce(model.classifier(torch.cat(features)), y.flatten())
    if step < slow["iters"]:
        return loss
    if "heads" not in slow.memory:
        slow.memory["alpha"] = [[float(i != j) for i in range(n)] for j in range(n)]
        slow.memory["heads"] = heads = [torch.nn.Linear(8, 3).double() for _ in range(n)]
        for head, weight, bias in zip(heads, model.weights, model.biases, strict=True):
            head.weight.data.copy_(weight)
            head.bias.data.copy_(bias)
    heads, alpha = slow.memory["heads"], slow.memory["alpha"]
    total = torch.zeros((), dtype=x.dtype)
    for q, head in enumerate(heads):
        alpha[q] = [weight / sum(alpha[q]) for weight in alpha[q]]
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
        for _ in range(30):
            optimizer.zero_grad()
            ce(head(features[q].detach()), y[q]).backward()
            optimizer.step()
        own = torch.autograd.grad(ce(head(features[q]), y[q]), head.weight, create_graph=True)[0]
        plain = {i: ce(head(features[i]), y[i]) for i in range(n) if i != q}
        elsewhere = sum(alpha[q][i] * each for i, each in plain.items())
        term = torch.autograd.grad(elsewhere, head.weight, retain_graph=True)[0]
        series = term.clone()
        for i in range(10):
            inner = ce(head(features[q].detach()), y[q])
            (slope,) = torch.autograd.grad(inner, head.weight, create_graph=True)
            (curved,) = torch.autograd.grad((slope * term).sum(), head.weight)
            term = term - curved
            series = 2 * term if i == 0 and model.task.compat else series + term
            if float(series.detach().abs().max()) > 10:
                break
        for i, each in plain.items():
            alpha[q][i] *= float(torch.exp(slow["groupdro_eta"] * alpha[q][i] * each.detach()))
        if model.task.compat:  # DomainBed changes its weights before it takes the gradient
            elsewhere = sum(alpha[q][i] * each for i, each in plain.items())
        total = total + elsewhere - slow["cos_lambda"] * (series * own).sum()
    return loss + total / n


OBJECTIVES: dict[str, Callable[[Slow, int, Tensor, Tensor], Tensor]] = {
    "SD": sd,
    "IGA": iga,
    "Fishr": fishr,
    "IB_ERM": bottleneck,
    "IB_IRM": bottleneck_irm,
    "CAD": cad,
    "CondCAD": cad,
    "CausIRL_CORAL": causirl,
    "CausIRL_MMD": causirl,
    "EQRM": eqrm,
    "RDM": rdm,
    "SelfReg": self_reg,
    "TRM": trm,
}
