"""Steps with unlabelled minibatches of domains to adapt to, against slow ones."""

from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from regraft.bench.algorithms import Task, algorithms, find_algorithm
from regraft.bench.protocol.spaces import draw_configuration
from tests.helpers.slow_updates import coral, mmd
from tests.helpers.small_tasks import TWO_PHASES, VECTORS, assert_same, draw_batch, snapshot

K, T, B = 2, 1, 6
GAMMAS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
ce = functional.cross_entropy


def make(name: str, compat: bool = False, **hparams: Any) -> Any:
    entry = find_algorithm(name)
    configuration = draw_configuration(entry.space("features"), 0, 0)
    small = {"featurizer_width": 8, "lr": 0.01, "weight_decay": 0.01, **hparams}
    task = Task(VECTORS, 2, K, torch.device("cpu"), compat, n_unlabelled=T)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = entry.make(task, configuration | small, torch.Generator().manual_seed(0))
    return made.double()


def batches() -> list[tuple[Tensor, Tensor, Tensor]]:
    drawn = [draw_batch(K + T, B, seed=seed) for seed in range(4)]
    return [(x[:K].double(), y[:K], x[K:].double()) for x, y in drawn]


def check(first: nn.Module, second: nn.Module) -> None:
    for mine, theirs in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("name", ["CORAL", "MMD"])
def test_alignment_has_the_target_among_the_domains(name: str) -> None:
    model, twin = make(name, mmd_gamma=2.0), make(name, mmd_gamma=2.0)
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.01, weight_decay=0.01)
    for step, (x, y, unlabelled) in enumerate(batches()):
        features = [twin.featurizer(rows) for rows in [*x, *unlabelled]]
        labelled = zip(features, y, strict=False)
        loss = sum(ce(twin.classifier(f), labels) for f, labels in labelled) / K
        distances = [
            coral(a, b) if name == "CORAL" else mmd(a, b, GAMMAS)
            for a, b in combinations(features, 2)
        ]
        optimizer.zero_grad()
        (loss + 2.0 * sum(distances) / len(distances)).backward()
        optimizer.step()
        model.update_adapting(step, x, y, unlabelled)
        check(model, twin)


def test_the_discriminator_of_dann_sees_the_target() -> None:
    hparams = {"lr_g": 0.01, "lr_d": 0.02, "lambda": 0.7, "grad_penalty": 0.3, "mlp_width": 16}
    model, twin = make("DANN", **hparams), make("DANN", **hparams)
    assert model.discriminator[-1].out_features == K + T
    network = [*twin.featurizer.parameters(), *twin.classifier.parameters()]
    betas = (twin.hparams["beta1"], 0.9)
    descents = {
        "network": torch.optim.Adam(network, lr=0.01, betas=betas),
        "discriminator": torch.optim.Adam(twin.discriminator.parameters(), lr=0.02, betas=betas),
    }
    for step, (x, y, unlabelled) in enumerate(batches()):
        turn = model.variant(step)
        features = twin.featurizer(torch.cat([*x, *unlabelled]))
        if turn == "discriminator":
            features = features.detach().requires_grad_()
        domains = torch.tensor([k for k in range(K + T) for _ in range(B)])
        losses = ce(twin.discriminator(features), domains, reduction="none")
        (slope,) = torch.autograd.grad(losses.sum(), features, create_graph=True)
        loss = losses.mean() + 0.3 * slope.square().sum(dim=1).mean()
        if turn == "network":
            logits = twin.classifier(features[: K * B])
            loss = ce(logits, y.flatten()) - 0.7 * loss
        descents[turn].zero_grad()
        loss.backward()
        descents[turn].step()
        model.update_adapting(step, x, y, unlabelled)
        check(model, twin)


@pytest.mark.parametrize(
    ("name", "compat"),
    [
        *((name, False) for name in sorted({*algorithms()} - {"DANN", "CORAL", "MMD"})),
        *((name, True) for name in ("DANN", "CORAL", "MMD")),
    ],
)
def test_the_others_make_no_use_of_it(name: str, compat: bool) -> None:
    if name in TWO_PHASES[1:]:
        pytest.skip("its steps are those of CRO")
    (x, y, unlabelled), *_ = batches()
    models = [make(name, compat) for _ in range(2)]
    models[0].update(0, x, y)
    models[1].update_adapting(0, x, y, unlabelled)
    assert_same(*(snapshot(model) for model in models))
