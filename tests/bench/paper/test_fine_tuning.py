"""Phase 1 on images: what is trained on what, and that stopping or a kill changes nothing."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from regraft.bench.networks.featurizers import Featurizer
from regraft.bench.paper.batched_augmentation import whole
from regraft.bench.paper.benchmark import IMAGE_BENCHMARKS
from regraft.bench.paper.fine_tuning import (
    FineTuning,
    ImageTrainer,
    Recipe,
    embed,
    fine_tune,
    make_network,
)
from regraft.bench.paper.fine_tuning import make_pool as join_pictures
from regraft.bench.paper.phase1 import PhaseOne, steps_taken
from regraft.bench.paper.picture_store import Pictures, fingerprint, load_pictures
from regraft.bench.paper.reproduce import list_images
from regraft.bench.protocol.jobs import Job
from tests.helpers.commands import kill_when, run_apart
from tests.helpers.errors import refused
from tests.helpers.paths import ROOT
from tests.helpers.small_pictures import small_featurizer, write_pacs

CPU = torch.device("cpu")
RECIPE = Recipe("toy", "", steps=6, size=24, batch=4)
PACS = IMAGE_BENCHMARKS["pacs"]
JOBS = [Job("PACS", "CRO", (3,), trial) for trial in (0, 1)]
NAME = "PACS-3-0-toy-32px-30-cpu.safetensors"


def make_pool(n: int = 60, device: torch.device = CPU) -> Pictures:
    """Dark images of class 0, bright ones of class 1."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 2
    noise = torch.randint(0, 60, (n, 3, 20, 20), generator=generator)
    pixels = (noise + 150 * y[:, None, None, None]).to(torch.uint8)
    return Pictures(pixels.to(device), y.to(device), torch.ones(n))


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
    featurizer = small_featurizer()
    start = make_network(featurizer, 8, 2, seed=0).state_dict()
    trained = fine_tune(make_task(), featurizer, RECIPE)
    changed = {name for name in start if not torch.equal(start[name], trained[name])}
    parameters = {name for name, _ in make_network(small_featurizer(), 8, 2, 0).named_parameters()}
    # What is added in front of a ReLU that is always dead would not move.
    assert changed == parameters and "0.1.weight" in changed
    assert torch.equal(trained["0.1.running_mean"], torch.zeros(8))
    # The featurizer itself is left alone.
    assert equal(featurizer.network.state_dict(), small_featurizer().network.state_dict())


def test_training_finds_the_classes_in_evaluation_mode() -> None:
    pool = make_pool()
    trained = train(steps=60, learning_rate=0.05)
    X = embed(small_featurizer(), trained, pool, RECIPE.size).float()
    logits = X @ trained["1.weight"].T + trained["1.bias"]
    assert float((logits.argmax(dim=1) == pool.y).double().mean()) > 0.95
    plain = small_featurizer()
    noisy = Featurizer(nn.Sequential(plain.network, nn.Dropout(0.9)), plain.mean, plain.deviation)
    usual = train()
    other = fine_tune(make_task(), noisy, RECIPE)
    assert torch.equal(usual["1.weight"], other["1.weight"])


def test_only_training_rows_are_seen_and_the_seed_decides_everything() -> None:
    state = torch.random.get_rng_state()
    assert equal(train(), train())
    assert not equal(train(), train(make_task(seed=1)))
    assert torch.equal(torch.random.get_rng_state(), state)
    task = make_task()
    pixels = task.pool.pixels.clone()
    pixels[40:] = 255 - pixels[40:]
    other = replace(task, pool=replace(task.pool, pixels=pixels))
    assert equal(train(task), train(other))
    pixels[:20] = 255 - pixels[:20]
    assert not equal(train(task), train(other))


def test_a_resumed_training_has_the_same_bits() -> None:
    states: list[dict[str, Tensor]] = []

    def keep(state: dict[str, Tensor]) -> None:
        states.append({name: value.clone() for name, value in state.items()})

    told: list[int] = []
    usual = fine_tune(
        make_task(), small_featurizer(), RECIPE, keep=keep, save_every=0, on_progress=told.append
    )
    assert [steps_taken(state) for state in states] == list(range(1, RECIPE.steps))
    assert told[-1] == RECIPE.steps
    for state in states:
        assert equal(usual, fine_tune(make_task(), small_featurizer(7), RECIPE, kept=state))
    early: list[dict[str, Tensor]] = []
    fine_tune(make_task(), small_featurizer(), RECIPE, keep=early.append, save_every=1000)
    assert early == [] and steps_taken(None) == 0


def test_features_are_those_of_unchanged_normalized_images_in_16_bits() -> None:
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
    trained = train()
    trained["0.1.bias"] += 1e6
    with refused("too large for 16 bits"):
        embed(small_featurizer(), trained, make_pool(), RECIPE.size)


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


def make_phase1(data: Path, folder: Path, steps: int = 30, save_every: float = 60.0) -> PhaseOne:
    listings = list_images(PACS, data)
    files = fingerprint(listings)
    trainer = ImageTrainer(
        join_pictures(
            load_pictures(listings, files, 32, folder / "pictures", lambda _: None),
            CPU,
        ),
        tuple(len(listing.labels) for listing in listings),
        PACS.n_classes,
        small_featurizer(),
        Recipe("toy", "", steps=steps, size=32, batch=2),
        save_every,
    )
    return PhaseOne(PACS, trainer, files, folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pacs(tmp_path_factory.mktemp("data"), each=3)


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training that nobody stopped."""
    out = tmp_path_factory.mktemp("finished")
    make_phase1(data, out).checkpoints(JOBS[:1], lambda _: None)
    return out


def weights(folder: Path) -> dict[str, Tensor]:
    return safetensors.torch.load_file(folder / "phase1" / NAME)


def test_a_pool_has_the_environments_in_turn_and_takes_them_from_the_list() -> None:
    generator = torch.Generator().manual_seed(0)
    pictures = [
        Pictures(
            torch.randint(256, (n, 3, 4, 4), generator=generator).to(torch.uint8),
            torch.full((n,), n),
            torch.rand(n, generator=generator),
        )
        for n in (2, 1, 3)
    ]
    whole = [torch.cat([getattr(p, name) for p in pictures]) for name in ("pixels", "y", "aspects")]
    pool = join_pictures(pictures, CPU)
    assert pictures == []
    for made, expected in zip((pool.pixels, pool.y, pool.aspects), whole, strict=True):
        assert torch.equal(made, expected)


def test_sources_are_trained_on_and_finished_trainings_are_not_repeated(
    data: Path, tmp_path: Path, finished: Path
) -> None:
    trainer = make_phase1(data, tmp_path, steps=1).trainer
    assert isinstance(trainer, ImageTrainer)
    seen = trainer.task(JOBS[0])
    sizes = [21] * 4
    assert [len(rows) for rows in seen.rows] == [21 - 4] * 3
    for env, rows in enumerate(seen.rows):
        expected = sum(sizes[:env]) + JOBS[0].split(env, 21)[0]
        assert torch.equal(rows, expected)
    assert seen.n_classes == 7 and seen.seed == JOBS[0].seed != JOBS[1].seed
    before = (finished / "phase1" / NAME).stat().st_mtime_ns
    told: list[str] = []
    make_phase1(data, finished).checkpoints(JOBS[:1], told.append)
    assert told == [] and (finished / "phase1" / NAME).stat().st_mtime_ns == before
    assert list((finished / "under-way").glob("*")) == []


def test_features_are_those_of_their_checkpoint(data: Path, tmp_path: Path) -> None:
    phase1 = make_phase1(data, tmp_path, steps=1)
    told: list[str] = []
    checkpoints = phase1.checkpoints(JOBS, told.append)
    assert told[-1] == "Phase 1, steps: 2 of 2"
    first = phase1.features(JOBS[0], checkpoints[JOBS[0]]).open()
    assert [X.shape for X in first.X] == [(21, 8)] * 4 and first.head.shape == (7, 9)
    assert first.test_env == 3 and first.sources == [0, 1, 2]
    assert all(y.tolist() == [label for label in range(7) for _ in range(3)] for y in first.y)
    other = phase1.features(JOBS[1], checkpoints[JOBS[1]]).open()
    assert not torch.equal(other.rows_in[0], first.rows_in[0])  # another trial, another split
    assert not torch.equal(other.X[0], first.X[0])
    written = (tmp_path / "features").stat().st_mtime_ns
    again = make_phase1(data, tmp_path, steps=1).features(JOBS[0], checkpoints[JOBS[0]]).open()
    assert torch.equal(again.X[2], first.X[2])
    assert (tmp_path / "features").stat().st_mtime_ns == written


class Stop(Exception):
    """In place of an interrupt."""


def test_an_interrupted_training_goes_on_with_the_same_bits(
    data: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = make_phase1(data, tmp_path, save_every=0)
    monkeypatch.setattr("regraft.bench.paper.fine_tuning._TELL_EVERY", 0.0)

    def stop(text: str) -> None:
        if text.startswith("Phase 1, steps: 11 of"):
            raise Stop

    with pytest.raises(Stop):
        stopped.checkpoints(JOBS[:1], stop)
    assert [path.name for path in (tmp_path / "under-way").iterdir()] == [NAME]
    told: list[str] = []
    make_phase1(data, tmp_path).checkpoints(JOBS[:1], told.append)
    assert told[0].startswith("Phase 1, steps: 11 of 30")  # ten were kept
    assert equal(weights(tmp_path), weights(finished))
    assert list((tmp_path / "under-way").iterdir()) == []


def test_the_state_of_another_training_is_not_gone_on_from(data: Path, tmp_path: Path) -> None:
    first, other = make_phase1(data, tmp_path), make_phase1(data, tmp_path, steps=29)
    assert first._path("under-way", JOBS[0]) != other._path("under-way", JOBS[0])
    assert first._key(JOBS[0]) != first._key(JOBS[1])
    other._path("under-way", JOBS[0]).parent.mkdir()
    other._path("under-way", JOBS[0]).write_bytes(b"torn")
    with pytest.warns(UserWarning, match="is damaged and is made again"):
        other.checkpoints(JOBS[:1], lambda _: None)


PROGRAM = """
import sys
from pathlib import Path
import torch
from tests.bench.paper.test_fine_tuning import JOBS, make_phase1
torch.set_num_threads(1)
phase1 = make_phase1(Path(sys.argv[1]), Path(sys.argv[2]), save_every=0)
phase1.remove_unfinished()
phase1.checkpoints(JOBS[:1], lambda _: None)
"""


@pytest.mark.slow
def test_kills_at_any_moment_change_nothing(data: Path, finished: Path, tmp_path: Path) -> None:
    program: dict[str, Any] = {"code": PROGRAM, "path": [ROOT]}
    kill_when((tmp_path / "under-way" / NAME).exists, data, tmp_path, **program)
    assert not (tmp_path / "phase1" / NAME).exists()
    assert run_apart(data, tmp_path, **program).code == 0
    assert equal(weights(tmp_path), weights(finished))
    assert list((tmp_path / "under-way").iterdir()) == []
