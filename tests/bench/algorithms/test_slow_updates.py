"""Steps of DomainBed's later algorithms against slow ones: same weights, same minibatches."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from regraft.bench.algorithms import algorithms
from regraft.bench.algorithms.adrmx import ADRMX
from tests.helpers.slow_updates import OBJECTIVES, Slow
from tests.helpers.small_tasks import TWO_PHASES, draw_batch, make

K, B, CLASSES = 3, 6, 3
ce = functional.cross_entropy


def pair(name: str, compat: bool = False, **hparams: Any) -> tuple[Any, Any]:
    """An algorithm and another with its weights and draws, in double precision."""
    settings = {"weight_decay": 0.01, "lr": 0.01, **hparams}
    first, second = (
        make(name, K, compat=compat, n_classes=CLASSES, **settings).double() for _ in range(2)
    )
    return first, second


def batches(n: int = 3) -> list[tuple[Tensor, Tensor]]:
    made = (draw_batch(K, B, seed=seed, n_classes=CLASSES) for seed in range(n))
    return [(x.double(), y) for x, y in made]


def check(first: nn.Module, second: nn.Module) -> None:
    """Every weight is the same up to rounding."""
    pairs = zip(first.named_parameters(), second.parameters(), strict=True)
    for (name, mine), theirs in pairs:
        torch.testing.assert_close(mine, theirs, atol=1e-9, rtol=1e-9, msg=lambda m, n=name: n + m)


def adam(model: Any, *modules: nn.Module, lr: str = "lr", **options: Any) -> torch.optim.Adam:
    parameters = nn.ModuleList(modules).parameters()
    decay = model.hparams["weight_decay"]
    return torch.optim.Adam(parameters, lr=model.hparams[lr], **{"weight_decay": decay} | options)


def descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@pytest.mark.parametrize(
    ("name", "compat", "hparams"),
    [
        ("SD", False, {}),
        ("IGA", False, {"penalty": 10.0}),
        ("Fishr", False, {"penalty_anneal_iters": 1}),
        ("IB_ERM", False, {"ib_penalty_anneal_iters": 1}),
        ("IB_IRM", False, {"ib_penalty_anneal_iters": 1, "irm_penalty_anneal_iters": 2}),
        ("CAD", False, {}),
        ("CondCAD", False, {}),
        ("CausIRL_CORAL", False, {}),
        ("CausIRL_MMD", False, {}),
        ("EQRM", False, {"eqrm_burnin_iters": 0.5}),
        ("EQRM", True, {"eqrm_burnin_iters": 0.5}),
        ("RDM", False, {"rdm_penalty_anneal_iters": 1}),
        ("SelfReg", False, {}),
        ("SelfReg", True, {}),
        ("TRM", False, {"iters": 1, "cos_lambda": 0.5}),
        ("TRM", True, {"iters": 1, "cos_lambda": 0.5}),
    ],
)
def test_objectives(name: str, compat: bool, hparams: dict[str, Any]) -> None:
    model, twin = pair(name, compat, **hparams)
    slow = Slow(twin, twin.generator)
    parts = [
        module
        for module in twin.children()
        if not compat or module is not getattr(twin, "projection", None)
    ]
    optimizer = adam(twin, *parts)
    restarts = {value for key, value in hparams.items() if key.endswith("anneal_iters")}
    rates = {"RDM": "rdm_lr", "EQRM": "eqrm_lr"}
    for step, (x, y) in enumerate(batches()):
        # The fraction 0.5 is reached by step 1, but DomainBed waits for a step that equals it.
        if step in restarts or (name == "EQRM" and step == 1 and not compat):
            optimizer = adam(twin, *parts, lr=rates.get(name, "lr"))
        descend(optimizer, OBJECTIVES[name](slow, step, x, y))
        model.update(step, x, y)
        check(model, twin)


def test_all_objectives_are_compared_and_all_of_domainbeds_algorithms_are_here() -> None:
    assert OBJECTIVES.keys() < algorithms().keys()
    assert len(algorithms().keys() - set(TWO_PHASES)) == 34


@pytest.mark.parametrize(
    ("name", "hparams"), [("ANDMask", {"tau": 0.5}), ("SANDMask", {"tau": 0.2, "k": 0.01})]
)
def test_masks(name: str, hparams: dict[str, Any]) -> None:
    model, twin = pair(name, **hparams)
    optimizer = adam(twin, twin.featurizer, twin.classifier)
    for step, (x, y) in enumerate(batches()):
        weights = list(twin.parameters())
        slopes = [
            torch.autograd.grad(ce(twin.predict(rows), labels), weights)
            for rows, labels in zip(x, y, strict=True)
        ]
        for weight, *own in zip(weights, *slopes, strict=True):
            flat = [slope.flatten().tolist() for slope in own]
            kept = []
            for entries in zip(*flat, strict=True):
                agreement = abs(sum((e > 0) - (e < 0) for e in entries)) / K
                mean = sum(entries) / K
                variance = sum((e - mean) ** 2 for e in entries) / (K - 1)
                if name == "ANDMask":
                    kept.append(float(agreement >= 0.5))
                elif variance == 0:
                    kept.append(float(agreement > 0.2))
                else:
                    kept.append(max(math.tanh(0.01 / variance * (agreement - 0.2)), 0.0))
            mask = torch.tensor(kept, dtype=torch.double).view_as(weight)
            weight.grad = mask * torch.stack(own).mean(0) / (1e-10 + mask.mean())
        optimizer.step()
        model.update(step, x, y)
        check(model, twin)


def test_fish() -> None:
    model, twin = pair("Fish", meta_lr=0.3)
    inner_state = None
    for step, (x, y) in enumerate(batches()):
        before = [weight.detach().clone() for weight in twin.featurizer.parameters()]
        before += [weight.detach().clone() for weight in twin.classifier.parameters()]
        optimizer = adam(twin, twin.featurizer, twin.classifier)
        if inner_state is not None:
            optimizer.load_state_dict(inner_state)
        for rows, labels in zip(x, y, strict=True):
            descend(optimizer, ce(twin.predict(rows), labels))
        inner_state = optimizer.state_dict()
        weights = [*twin.featurizer.parameters(), *twin.classifier.parameters()]
        for old, weight in zip(before, weights, strict=True):
            weight.data.copy_(old + 0.3 * (weight.data - old))
        model.update(step, x, y)
        check(
            nn.ModuleList([model.featurizer, model.classifier]),
            nn.ModuleList([twin.featurizer, twin.classifier]),
        )


def test_erm_plus_plus_trains_the_classifier_first_and_averages_at_last() -> None:
    model, twin = pair("ERMPlusPlus", linear_steps=1, linear_lr=0.02)
    linear = adam(twin, twin.classifier, lr="linear_lr")
    full = adam(twin, twin.featurizer, twin.classifier)
    network = nn.Sequential(twin.featurizer, twin.classifier)
    averages = None
    for (x, y), step in zip(batches(5), (0, 1, 2, 599, 600), strict=True):
        loss = ce(network(x.flatten(0, 1)), y.flatten())
        descend(full if step > 1 else linear, loss)
        now = [weight.detach().clone() for weight in network.parameters()]
        if step < 599:
            averages = now
        else:
            n = step - 598
            averages = [(a * n + w) / (n + 1) for a, w in zip(averages, now, strict=True)]
        model.update(step, x, y)
        for mine, theirs in zip(model.average.parameters(), averages, strict=True):
            torch.testing.assert_close(mine, theirs, atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(
            model.predict(x[0]),
            torch.func.functional_call(
                network, dict(zip(dict(network.named_parameters()), averages, strict=True)), x[0]
            ),
            atol=1e-9,
            rtol=1e-9,
        )


@pytest.mark.parametrize("output", ["tanh", "relu"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_urm(output: str, smoothing: float) -> None:
    model, twin = pair(
        "URM", urm_generator_output=output, urm_discriminator_label_smoothing=smoothing
    )
    main = adam(twin, twin.featurizer, twin.classifier)
    judge = adam(twin, twin.discriminator, lr="urm_discriminator_lr")
    bce = functional.binary_cross_entropy_with_logits
    for step, (x, y) in enumerate(batches()):
        features = getattr(torch, output)(twin.featurizer(x.flatten(0, 1)))
        ones = torch.ones(K * B, 1).double()
        fooled = bce(twin.discriminator(features), ones)
        descend(main, ce(twin.classifier(features), y.flatten()) + 0.1 * fooled)
        noise = torch.rand(features.shape, generator=twin.generator, dtype=torch.double)
        noise = 2 * noise - 1 if output == "tanh" else noise
        true, false = ones, 0 * ones
        if smoothing:
            draws = [
                torch.rand(K * B, generator=twin.generator, dtype=torch.double) for _ in range(2)
            ]
            true, false = (
                (1 - smoothing * (1 - draws[0]))[:, None],
                (smoothing * (1 - draws[1]))[:, None],
            )
        loss = bce(twin.discriminator(noise), true)
        loss = loss + 0.1 * bce(twin.discriminator(features.detach()), false)
        descend(judge, loss)
        model.update(step, x, y)
        check(model, twin)


@pytest.mark.parametrize(("gda", "compat"), [(False, False), (True, False), (True, True)])
def test_transfer(gda: bool, compat: bool) -> None:
    model, twin = pair(
        "Transfer", compat, gda=gda, delta=0.01, lr_d=0.05, d_steps_per_g=3, t_lambda=0.7
    )
    network = nn.ModuleList([twin.featurizer, twin.classifier])
    optimizer: torch.optim.Optimizer = adam(twin, network)
    if gda:
        optimizer = torch.optim.SGD(network.parameters(), lr=0.0 if compat else 0.01)

    def gap() -> Tensor:
        losses = [
            ce(twin.adversary(twin.featurizer(rows)), labels)
            for rows, labels in zip(x, y, strict=True)
        ]
        return 0.7 * (max(losses) - min(losses))

    for step, (x, y) in enumerate(batches()):
        descend(optimizer, ce(twin.predict(x.flatten(0, 1)), y.flatten()))
        descend(optimizer, gap())
        twin.adversary.load_state_dict(twin.classifier.state_dict())
        adversary = torch.optim.SGD(twin.adversary.parameters(), lr=0.05)
        for _ in range(3):
            descend(adversary, -gap())
            pairs = list(
                zip(twin.classifier.parameters(), twin.adversary.parameters(), strict=True)
            )
            distance = sum(float(((a - b) ** 2).sum().detach()) for a, b in pairs) ** 0.5
            if distance > 0.01:
                for mine, theirs in pairs:
                    theirs.data.copy_(mine.data + 0.01 / distance * (theirs.data - mine.data))
        model.update(step, x, y)
        check(model, twin)


def slow_contrast(features: Tensor, y: list[int]) -> Tensor:
    rows = functional.normalize(features, dim=1)
    total, left = torch.zeros(()).double(), 0
    for i, label in enumerate(y):
        close = {j: 0.5 * torch.exp(rows[i] @ rows[j] / 0.07) for j in range(len(y)) if j != i}
        alike = [j for j in close if y[j] == label]
        if not alike:
            left += 1
            continue
        whole = sum(close.values()) + 1e-5
        total = total - sum(torch.log(close[j] / whole + 1e-5) for j in alike) / len(alike)
    return total / (len(y) - left + 1)


@pytest.mark.parametrize("compat", [False, True])
def test_adrmx(compat: bool) -> None:
    hparams = {"mlp_width": 8, "mlp_depth": 3, "d_steps_per_g_step": 1}
    model, twin = pair("ADRMX", compat, **hparams)
    parts = [twin.featurizer, twin.of_domain, twin.classifier, twin.final_classifier]
    options: dict[str, Any] = {"betas": (0.5, 0.9), "weight_decay": 0}
    main = adam(twin, *parts, twin.domain_classifier, **options)
    judge = adam(twin, twin.discriminator, **options)
    for step, (x, labels) in enumerate(batches(4)):
        rows, y = x.flatten(0, 1), labels.flatten()
        domains = torch.arange(K).repeat_interleave(B)
        features, of_domain = twin.featurizer(rows), twin.of_domain(rows)
        rest = features - of_domain
        found = ce(twin.discriminator(rest), domains)
        if step % 2 == 1:
            descend(judge, found)
        else:
            remixed = torch.zeros(()).double()
            for label in range(CLASSES):
                members = [i for i in range(len(y)) if y[i] == label]
                candidates = list(range(len(members))) if compat else members
                draws = torch.rand(len(y), generator=twin.generator).tolist()
                one, two = sorted(candidates, key=lambda i, d=draws: -d[i])[:2]
                mixed = twin.classifier((rest[one] + of_domain[two])[None])
                remixed = remixed + ce(mixed, y[one][None]) / CLASSES
            loss = ce(twin.classifier(features), y) + ce(twin.final_classifier(rest), y)
            loss = loss + ce(twin.domain_classifier(of_domain), domains) + remixed
            loss = loss + slow_contrast(features, y.tolist()) + slow_contrast(rest, y.tolist())
            descend(main, loss - 0.75 * found)
        assert (model.variant(step) == "discriminator") == (step % 2 == 1)
        model.update(step, x, labels)
        check(model, twin)


def test_pairs_for_remixing_are_of_one_class_and_lone_rows_are_left_out() -> None:
    model: ADRMX = make("ADRMX", K, n_classes=CLASSES)
    rest, y = torch.randn(4, 8), torch.tensor([0, 1, 1, 2])
    seen = []
    model.classifier.register_forward_hook(lambda module, given, made: seen.append(given[0]))
    loss = model.remixed(rest, 10 * rest, y)
    assert any(torch.allclose(seen[0][1], rest[a] + 10 * rest[b]) for a, b in ((1, 2), (2, 1)))
    expected = ce(model.classifier(seen[0][1:2]), y[1:2]) / CLASSES
    torch.testing.assert_close(loss, expected)
