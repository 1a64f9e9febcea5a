"""Phase 1 on images: what is trained and what is not, and that stopping changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regraft.bench.networks.featurizers import Featurizer
from regraft.bench.paper.batched_augmentation import whole
from regraft.bench.paper.fine_tuning import (
    FineTuning,
    Pool,
    Recipe,
    embed,
    fine_tune,
    make_network,
    steps_taken,
)
from tests.helpers.small_pictures import small_featurizer

CPU = torch.device("cpu")
RECIPE = Recipe("toy", "", steps=6, size=24, batch=4)


def make_pool(n: int = 60, device: torch.device = CPU) -> Pool:
    """Dark images of class 0, bright ones of class 1."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 2
    noise = torch.randint(0, 60, (n, 3, 20, 20), generator=generator)
    pixels = (noise + 150 * y[:, None, None, None]).to(torch.uint8)
    return Pool(pixels.to(device), y.to(device), torch.ones(n))


def make_task(seed: int = 0, device: torch.device = CPU) -> FineTuning:
    rows = (torch.arange(0, 20), torch.arange(20, 40))
    return FineTuning(make_pool(device=device), rows, n_classes=2, seed=seed)


def train(task: FineTuning | None = None, **changes: Any) -> dict[str, Tensor]:
    recipe = replace(RECIPE, **changes)
    return fine_tune(task or make_task(), small_featurizer(), recipe)


def equal(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    assert first.keys() == second.keys()
    return all(torch.equal(first[name], second[name]) for name in first)


def test_all_weights_are_trained_and_statistics_stay() -> None:
    start = make_network(small_featurizer(), 8, 2, seed=0).state_dict()
    trained = train()
    changed = {name for name in start if not torch.equal(start[name], trained[name])}
    parameters = {name for name, _ in make_network(small_featurizer(), 8, 2, 0).named_parameters()}
    # What is added in front of a ReLU that is always dead would not move.
    assert changed == parameters and "0.1.weight" in changed
    assert torch.equal(trained["0.1.running_mean"], torch.zeros(8))


def test_the_featurizer_itself_is_left_alone() -> None:
    featurizer = small_featurizer()
    before = {name: value.clone() for name, value in featurizer.network.state_dict().items()}
    fine_tune(make_task(), featurizer, RECIPE)
    assert equal(before, featurizer.network.state_dict())


def test_training_finds_the_classes() -> None:
    pool = make_pool()
    trained = train(steps=60, learning_rate=0.05)
    X = embed(small_featurizer(), trained, pool, RECIPE.size).float()
    logits = X @ trained["1.weight"].T + trained["1.bias"]
    assert float((logits.argmax(dim=1) == pool.y).double().mean()) > 0.95


def test_the_seed_decides_everything() -> None:
    state = torch.random.get_rng_state()
    assert equal(train(), train())
    assert not equal(train(), train(make_task(seed=1)))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_only_training_rows_are_seen() -> None:
    task = make_task()
    pixels = task.pool.pixels.clone()
    pixels[40:] = 255 - pixels[40:]
    other = replace(task, pool=replace(task.pool, pixels=pixels))
    assert equal(train(task), train(other))
    pixels[:20] = 255 - pixels[:20]
    assert not equal(train(task), train(other))


@pytest.mark.parametrize("when", range(1, RECIPE.steps))
def test_a_resumed_training_has_the_same_bits(when: int) -> None:
    states: list[dict[str, Tensor]] = []

    def keep(state: dict[str, Tensor]) -> None:
        states.append({name: value.clone() for name, value in state.items()})

    told: list[int] = []
    usual = fine_tune(
        make_task(), small_featurizer(), RECIPE, keep=keep, save_every=0, on_progress=told.append
    )
    assert [steps_taken(state) for state in states] == list(range(1, RECIPE.steps))
    assert told[-1] == RECIPE.steps
    resumed = fine_tune(make_task(), small_featurizer(7), RECIPE, kept=states[when - 1])
    assert equal(usual, resumed)


def test_nothing_is_kept_before_its_time() -> None:
    states: list[dict[str, Tensor]] = []
    fine_tune(make_task(), small_featurizer(), RECIPE, keep=states.append, save_every=1000)
    assert states == [] and steps_taken(None) == 0


def test_features_are_those_of_unchanged_normalized_images() -> None:
    pool, trained = make_pool(70), train()
    X = embed(small_featurizer(), trained, pool, RECIPE.size)
    assert X.shape == (70, 8) and X.dtype == torch.float16
    network = small_featurizer().network
    mine = {name[2:]: value for name, value in trained.items() if name.startswith("0.")}
    network.load_state_dict(mine)
    mean, deviation = (torch.tensor(v)[:, None, None] for v in ((0.5, 0.4, 0.3), (0.2, 0.25, 0.3)))
    with torch.no_grad():
        wanted = network((whole(pool.pixels / 255, RECIPE.size) - mean) / deviation)
    torch.testing.assert_close(X.float(), wanted, atol=2e-3, rtol=2e-3)


def test_features_beyond_16_bits_are_refused() -> None:
    trained = train()
    trained["0.1.bias"] += 1e6
    with pytest.raises(ValueError, match="too large for 16 bits") as caught:
        embed(small_featurizer(), trained, make_pool(), RECIPE.size)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_networks_with_dropout_stay_in_evaluation_mode() -> None:
    plain = small_featurizer()
    noisy = Featurizer(nn.Sequential(plain.network, nn.Dropout(0.9)), plain.mean, plain.deviation)
    usual = train()
    other = fine_tune(make_task(), noisy, RECIPE)
    assert torch.equal(usual["1.weight"], other["1.weight"])


@pytest.mark.parametrize("encoder", ["resnet50.ram_in1k", "hf-hub:some/one"])
def test_names_of_recipes_fit_into_files(encoder: str) -> None:
    name = Recipe(encoder, "", steps=5000, size=224).name
    assert "/" not in name and ":" not in name and name.endswith("-224px-5000")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_repeats_itself_and_resumes() -> None:
    states: list[dict[str, Tensor]] = []
    recipe, device = replace(RECIPE, steps=120), torch.device("cuda")

    def keep(state: dict[str, Tensor]) -> None:
        states.append({name: value.cpu() for name, value in state.items()})

    def run(**options: Any) -> dict[str, Tensor]:
        return fine_tune(make_task(device=device), small_featurizer(), recipe, **options)

    usual = run(keep=keep, save_every=0)
    assert equal(usual, run()) and [steps_taken(state) for state in states] == [50, 100]
    assert equal(usual, run(kept=states[0]))
