"""MTL, SagNet and ARM: groups of rows, styles and contexts by hand, and what each step moves."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from regraft.bench.algorithms import find_algorithm
from regraft.bench.algorithms.context import EVALUATION_BATCH, group_means
from regraft.bench.algorithms.sagnet import SagNet, join, split
from regraft.bench.protocol.spaces import draw_configuration
from tests.helpers import small_tasks
from tests.helpers.small_tasks import (
    IMAGES,
    VECTORS,
    assert_same,
    check_step,
    draw_batch,
    moved_parts,
    snapshot,
)

K, B, N_CLASSES = 2, 8, 3
(D,) = VECTORS
make = partial(small_tasks.make, n_classes=N_CLASSES)
batch = partial(draw_batch, n_classes=N_CLASSES)
shapes = pytest.mark.parametrize("shape", [VECTORS, IMAGES])


@given(st.integers(1, 30), st.integers(1, 12))
def test_means_of_groups(n: int, size: int) -> None:
    rows = torch.randn(n, 2, 3)
    expected = [rows[i // size * size :][:size].mean(dim=0) for i in range(n)]
    torch.testing.assert_close(group_means(rows, size), torch.stack(expected))


# MTL


def test_embeddings_are_means_of_the_rows_seen_with_them() -> None:
    model, (x, y) = make("MTL", mtl_ema=0.75), batch()
    expected = torch.zeros(K, model.n_features)
    for _ in range(2):
        with torch.no_grad():
            means = torch.stack([model.featurizer(rows).mean(dim=0) for rows in x])
        expected = 0.75 * means + 0.25 * expected
        model.update(0, x, y)
        torch.testing.assert_close(model.embeddings, expected)
    assert "embeddings" in model.state()
    model, x = make("MTL"), torch.randn(EVALUATION_BATCH + 10, D)
    features = model.featurizer(x)
    expected = [
        model.classifier(torch.cat([part, part.mean(dim=0).expand_as(part)], dim=1))
        for part in (features[:EVALUATION_BATCH], features[EVALUATION_BATCH:])
    ]
    torch.testing.assert_close(model.predict(x), torch.cat(expected))


def test_a_step_goes_down_the_sum_over_domains() -> None:
    """The gradient also flows through the part of an embedding that is this batch's."""
    (x, y), model, reference = batch(), make("MTL", mtl_ema=0.5), make("MTL", mtl_ema=0.5)
    losses = []
    for rows, labels in zip(x, y, strict=True):
        features = reference.featurizer(rows)
        embedding = 0.5 * features.mean(dim=0).expand_as(features)  # from zero
        logits = reference.classifier(torch.cat([features, embedding], dim=1))
        losses.append(functional.cross_entropy(logits, labels))
    before = snapshot(model)
    check_step(model, reference, {"loss": torch.stack(losses).sum()}, (x, y))
    assert moved_parts(model, before) == {"featurizer", "classifier"}


def test_with_compat_noise_takes_the_place_of_embeddings() -> None:
    model, x = make("MTL", compat=True), torch.randn(20, D)
    features = model.featurizer(x)
    noise = torch.randn(features.shape, generator=model.generator.clone_state())
    expected = model.classifier(torch.cat([features, noise], dim=1))
    torch.testing.assert_close(model.predict(x), expected)
    assert not model.predict(x).equal(model.predict(x))

    model.update(0, *batch())
    assert model.embeddings.abs().sum() > 0


# SagNet


def test_content_and_style_make_up_the_features_and_content_predicts() -> None:
    features = torch.tensor([[1.0, 3.0, 5.0], [0.0, 0.0, 9.0]])
    content, mean, variance = split(features)
    torch.testing.assert_close(mean, torch.tensor([[3.0], [3.0]]))
    torch.testing.assert_close(variance, torch.tensor([[4.0], [27.0]]))
    torch.testing.assert_close(content[0], torch.tensor([-1.0, 0.0, 1.0]))
    torch.testing.assert_close(join(content, mean, variance), features)
    model, x = make("SagNet"), torch.randn(7, D)
    torch.testing.assert_close(model.predict(x), model.content(model.featurizer(x)))


def test_mixed_styles_lie_between_two_rows_and_swapped_contents_keep_theirs() -> None:
    model, features = make("SagNet"), torch.randn(6, 40)
    twin = model.generator.clone_state()
    mixed = model.mix_styles(features)
    other, share = torch.rand(6, generator=twin).argsort(), torch.rand(6, generator=twin)
    assert sorted(other.tolist()) == list(range(6))
    mean, variance = features.mean(dim=1), features.var(dim=1)
    torch.testing.assert_close(mixed.mean(dim=1), share * mean + (1 - share) * mean[other])
    expected = share * variance + (1 - share) * variance[other]
    torch.testing.assert_close(mixed.var(dim=1), expected, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(split(mixed)[0], split(features)[0], rtol=1e-3, atol=1e-3)
    model, features = make("SagNet"), torch.randn(6, 40, requires_grad=True)
    other = torch.rand(6, generator=model.generator.clone_state()).argsort()
    swapped = model.swap_contents(features)
    torch.testing.assert_close(swapped.mean(dim=1), features.mean(dim=1))
    torch.testing.assert_close(split(swapped)[0], split(features)[0][other], rtol=1e-3, atol=1e-3)
    # Only the style carries a gradient: row 0's features move row 0's result alone.
    (slope,) = torch.autograd.grad(swapped[0].sum(), features)
    assert slope[0].abs().sum() > 0
    assert slope[1:].abs().sum() == 0


def test_each_step_moves_its_own_networks_and_nothing_else() -> None:
    model, (x, y) = make("SagNet", weight_decay=0.1), batch()
    x, y = x.flatten(0, 1), y.flatten()
    steps = [
        (lambda: model.learn_content(x, y), {"featurizer", "content"}),
        (lambda: model.learn_style(model.featurizer(x).detach(), y), {"style"}),
        (lambda: model.hide_style(model.featurizer(x)), {"featurizer"}),
    ]
    for _ in range(2):
        for step, expected in steps:
            before = snapshot(model)
            step()
            assert moved_parts(model, before) == expected


def test_an_update_is_the_three_steps_with_fresh_gradients() -> None:
    whole, (x, y) = make("SagNet"), batch()
    rows, labels = x.flatten(0, 1), y.flatten()
    steps: dict[str, Callable[[SagNet], Tensor]] = {
        "loss_c": lambda model: model.learn_content(rows, labels),
        "loss_s": lambda model: model.learn_style(model.featurizer(rows).detach(), labels),
        "loss_adv": lambda model: model.hide_style(model.featurizer(rows)),
    }
    state = snapshot(whole)
    for number in range(2):
        reported = whole.update(number, x, y)
        assert list(reported) == list(steps)
        for key, step in steps.items():
            model = make("SagNet")
            model.load_state(state)
            assert step(model).equal(reported[key])
            state = snapshot(model)
        assert_same(snapshot(whole), state)


def test_content_and_style_are_learnt_apart_and_the_adversary_evens_classes() -> None:
    (x, y), model, twin = batch(), make("SagNet"), make("SagNet")
    x, y = x.flatten(0, 1), y.flatten()
    logits = twin.content(twin.mix_styles(twin.featurizer(x)))
    torch.testing.assert_close(model.learn_content(x, y), functional.cross_entropy(logits, y))
    twin.load_state(snapshot(model))
    logits = twin.style(twin.swap_contents(twin.featurizer(x)))
    loss = model.learn_style(model.featurizer(x).detach(), y)
    torch.testing.assert_close(loss, functional.cross_entropy(logits, y))
    # A style classifier of zeros already finds them so.
    model, (x, _) = make("SagNet", sag_w_adv=0.5), batch()
    for parameter in model.style.parameters():
        nn.init.zeros_(parameter)
    loss = model.hide_style(model.featurizer(x.flatten(0, 1)))
    assert loss.item() == pytest.approx(0.5 * math.log(N_CLASSES))


# ARM


@pytest.mark.parametrize(
    ("batch_size", "support"), [(1, 1), (8, 8), (32, 32), (64, 64), (12, 64), (128, 64)]
)
def test_supports_are_as_in_training_where_they_fill_a_batch(batch_size: int, support: int) -> None:
    model, x = make("ARM", batch_size=batch_size).eval(), torch.randn(2 * EVALUATION_BATCH + 5, D)
    expected = []
    for rows in x.split(support):
        context = model.context(rows).mean(dim=0).expand(len(rows), -1)
        expected.append(model.classifier(model.featurizer(torch.cat([rows, context], dim=1))))
    torch.testing.assert_close(model.predict(x), torch.cat(expected))


@pytest.mark.parametrize("name", ["MTL", "ARM"])
@pytest.mark.parametrize("batch_size", [8, 12])
def test_predictions_do_not_depend_on_how_they_are_split(name: str, batch_size: int) -> None:
    model, x = make(name, batch_size=batch_size).eval(), torch.randn(3 * EVALUATION_BATCH + 9, D)
    whole = model.predict(x)
    for size in (EVALUATION_BATCH, 2 * EVALUATION_BATCH):
        parts = torch.cat([model.predict(part) for part in x.split(size)])
        torch.testing.assert_close(parts, whole)
    # Each sees the rows that are evaluated with it.
    assert not torch.allclose(model.predict(x[:1]), whole[:1])


def test_images_get_one_channel_of_context_and_batches_of_eight() -> None:
    model = make("ARM", input_shape=IMAGES, batch_size=4).eval()
    convolutions = [layer for layer in model.context if isinstance(layer, nn.Conv2d)]
    assert [layer.weight.shape[:2] for layer in convolutions] == [(64, 2), (64, 64), (1, 64)]
    x = torch.rand(8, *IMAGES)
    context = model.context(x)
    assert context.shape == (8, 1, 28, 28)
    means = torch.cat([part.mean(dim=0).expand(4, 1, 28, 28) for part in context.split(4)])
    expected = model.classifier(model.featurizer(torch.cat([x, means], dim=1)))
    torch.testing.assert_close(model.predict(x), expected)
    space = find_algorithm("ARM").space("images")
    assert [draw_configuration(space, seed, 0)["batch_size"] for seed in range(4)] == [8] * 4
    assert find_algorithm("ARM").space("small images")["batch_size"].default == 64


@shapes
def test_each_domains_minibatch_is_one_support(shape: tuple[int, ...]) -> None:
    model, (x, y) = make("ARM", input_shape=shape, batch_size=3), batch(input_shape=shape)
    contexts = model.context(x.flatten(0, 1)).unflatten(0, (K, B))
    losses = []
    for rows, context, labels in zip(x, contexts, y, strict=True):
        joined = torch.cat([rows, context.mean(dim=0).expand_as(context)], dim=1)
        logits = model.classifier(model.featurizer(joined))
        losses.append(functional.cross_entropy(logits, labels))
    torch.testing.assert_close(model.losses(x, y), torch.stack(losses))
    expected = {"loss": torch.stack(losses).mean().detach()}
    torch.testing.assert_close(model.update(0, x, y), expected)


@shapes
def test_the_context_network_is_trained_unless_compat(shape: tuple[int, ...]) -> None:
    for compat, context in ((False, {"context"}), (True, set())):
        model = make("ARM", input_shape=shape, compat=compat, weight_decay=0.1)
        before = snapshot(model)
        for step in range(2):
            model.update(step, *batch(input_shape=shape))
        assert moved_parts(model, before) == {"featurizer", "classifier"} | context


@pytest.mark.parametrize(
    ("batch_size", "n", "groups"),
    [(8, 80, [8] * 10), (8, 70, [8] * 8 + [6]), (10, 84, [64, 10, 10]), (10, 69, [64, 5])],
)
def test_arms_last_batch_is_grouped_as_in_domainbed(
    batch_size: int, n: int, groups: list[int]
) -> None:
    """In supports of a batch's size if they divide what is left, else as one support."""
    model, x = make("ARM", batch_size=batch_size).eval(), torch.randn(n, D)
    expected = torch.cat([model.adapt(part, len(part)) for part in x.split(groups)])
    torch.testing.assert_close(model.predict(x), expected)


@pytest.mark.parametrize("name", ["GroupDRO", "Mixup", "CORAL", "MMD", "MTL", "ERM"])
def test_domains_pass_the_network_one_by_one_on_demand(name: str) -> None:
    """Each algorithm then hands batch normalization as many batches as DomainBed's does."""
    for per_domain, expected in ((False, 1), (True, 1 if name == "ERM" else 3)):
        model, (x, y) = make(name, 3), draw_batch(3)
        model.task = replace(model.task, per_domain=per_domain)
        norm = nn.BatchNorm1d(8)
        model.featurizer = nn.Sequential(model.featurizer, norm)
        model.reset()
        model.update(0, x, y)
        assert int(norm.num_batches_tracked) == expected
