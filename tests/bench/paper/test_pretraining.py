"""Phase 1: the same bits whenever and along whatever it is trained, and only from its rows."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from regraft.bench.datasets.colored_mnist import ColouredDigits, make_environments
from regraft.bench.paper import pretraining
from regraft.bench.paper.benchmark import COLORED_MNIST
from regraft.bench.paper.phase1 import PhaseOne
from regraft.bench.paper.pretraining import (
    PRESETS,
    DigitTrainer,
    Preset,
    Pretraining,
    _warp,
    _warps,
    embed,
    fingerprint,
    pretrain,
)
from regraft.bench.protocol.seeds import split
from regraft.encoders.mnist_cnn import N_FEATURES
from tests.helpers.problems import Digits

CPU = torch.device("cpu")
TINY = Preset("tiny", steps=6, batch=8)
MOVING = replace(TINY, shift=2.0, rotation=0.3, scale=0.2, shear=0.2)


def make_job(blobs: Digits, seed: int = 0) -> Pretraining:
    environments = make_environments(*blobs, seed)[:2]
    rows = tuple(split(len(env), i)[0] for i, env in enumerate(environments))
    return Pretraining(environments, rows, seed)


@pytest.fixture(scope="module")
def job(blobs: Digits) -> Pretraining:
    return make_job(blobs)


def weights(
    jobs: Pretraining | list[Pretraining], preset: Preset = TINY, device: torch.device = CPU
) -> list[Tensor]:
    jobs = [jobs] if isinstance(jobs, Pretraining) else jobs
    networks = pretrain(jobs, preset, device)
    return [torch.cat([p.detach().flatten() for p in network.parameters()]) for network in networks]


def test_the_presets_are_those_stated() -> None:
    assert PRESETS["paper"] == Preset("paper", steps=500, batch=64)
    best = PRESETS["best"]
    assert (best.steps, best.batch, best.learning_rate) == (6000, 128, 1e-3)
    assert (best.shift, best.rotation, best.scale, best.shear) == (3.0, 0.5, 0.2, 0.2)
    assert best.average == 0.999 and best.warps and not PRESETS["paper"].warps
    assert {name: preset.name for name, preset in PRESETS.items()} == {n: n for n in PRESETS}


@pytest.mark.parametrize("preset", [TINY, MOVING, replace(MOVING, average=0.9)])
def test_repetitions_have_the_same_bits(job: Pretraining, preset: Preset) -> None:
    (first,) = weights(job, preset)
    before = torch.manual_seed(1).get_state()  # whatever the global generator is at
    (second,) = weights(job, preset)
    assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)  # it is left alone


def test_other_jobs_change_nothing_and_are_counted(blobs: Digits, job: Pretraining) -> None:
    other = make_job(blobs, seed=1)
    (alone,) = weights(job, MOVING)
    for jobs, place in (([job, other], 0), ([other, job, other], 1)):
        assert torch.equal(weights(jobs, MOVING)[place], alone)
    assert not torch.equal(weights(other, MOVING)[0], alone)
    heard: list[int] = []
    pretrain([job, make_job(blobs, 1)], TINY, CPU, heard.append)
    assert heard == sorted(heard) and heard[-1] == TINY.steps


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_bits_alone_and_among_others(blobs: Digits, job: Pretraining) -> None:
    device, preset = torch.device("cuda"), replace(MOVING, steps=60, average=0.9)
    others = [make_job(blobs, seed=1), make_job(blobs, seed=2)]
    (alone,) = weights(job, preset, device)
    for _ in range(2):
        assert torch.equal(weights(job, preset, device)[0], alone)
        assert torch.equal(weights([others[0], job, others[1]], preset, device)[1], alone)


def test_rows_held_out_are_never_seen(job: Pretraining) -> None:
    spoilt = []
    for environment, rows in zip(job.sources, job.rows, strict=True):
        images, y = torch.zeros_like(environment.images), 1 - environment.y
        images[rows], y[rows] = environment.images[rows], environment.y[rows]
        spoilt.append(ColouredDigits(images, y, environment.colour))
    assert torch.equal(weights(job)[0], weights(replace(job, sources=tuple(spoilt)))[0])


def test_training_lowers_the_risk(job: Pretraining) -> None:
    risks = []
    for steps in (0, 15):
        (network,) = pretrain([job], replace(TINY, steps=steps, batch=16), CPU)
        assert not network.training
        with torch.no_grad():
            risk = [
                nn.functional.cross_entropy(network(env.inputs(rows)), env.y[rows])
                for env, rows in zip(job.sources, job.rows, strict=True)
            ]
        risks.append(float(sum(risk)))
    assert risks[1] < risks[0]


def test_the_average_of_the_weights(job: Pretraining) -> None:
    start, last = (weights(job, replace(TINY, steps=steps))[0] for steps in (0, 1))
    (average,) = weights(job, replace(TINY, steps=1, average=0.75))
    torch.testing.assert_close(average, 0.75 * start + 0.25 * last)


def test_features_of_all_rows(job: Pretraining, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretraining, "_EMBED_ROWS_CPU", 64)
    (network,) = pretrain([job], TINY, CPU)
    environment = job.sources[0]
    features = embed(network[0], environment)
    assert features.shape == (len(environment), N_FEATURES) and features.dtype == torch.float16
    assert not features.requires_grad
    rows = torch.tensor([0, len(environment) - 1])
    with torch.no_grad():
        expected = network[0](environment.inputs(rows)).half()
    torch.testing.assert_close(features[rows], expected)


def test_warps_of_an_image() -> None:
    x = torch.zeros(1, 1, 28, 28)
    x[:, :, 10:14, 8:16] = 1

    def warped(draws: list[float], **most: float) -> Tensor:
        maps = _warps(replace(TINY, **most), torch.tensor(draws)[:, None])
        return _warp(x, maps)

    def close(a: Tensor, b: Tensor) -> bool:
        return torch.allclose(a, b, atol=1e-4)

    assert close(warped([0.0] * 6, shift=2.0, rotation=1.0, scale=0.5, shear=0.5), x)
    assert close(warped([1.0] * 6), x)
    # A map says where a pixel comes from, so the image moves against it.
    assert close(warped([0, 0, 0, 0, 1, 0], shift=3.0), x.roll(-3, dims=-1))
    assert close(warped([0, 0, 0, 0, 0, -1], shift=2.0), x.roll(2, dims=-2))
    turned = warped([1, 0, 0, 0, 0, 0], rotation=torch.pi / 2)
    assert any(close(turned, x.rot90(k, dims=(-2, -1))) for k in (1, 3))
    wide, narrow = (warped([0, 0, sign, 0, 0, 0], scale=0.5) for sign in (-1.0, 1.0))
    assert narrow.sum() < x.sum() < wide.sum()
    slanted = warped([0, 1, 0, 0, 0, 0], shear=0.5)
    assert not close(slanted, x) and slanted.sum().item() == pytest.approx(x.sum().item(), rel=0.01)


def test_features_are_those_of_their_checkpoint(blobs: Digits, tmp_path: Path) -> None:
    trainer = DigitTrainer(*blobs, replace(TINY, steps=1), CPU)
    phase1 = PhaseOne(COLORED_MNIST, trainer, fingerprint(*blobs), tmp_path)
    job = phase1.job(test_env=1, trial=4)
    checkpoint = phase1.checkpoints([job], lambda _: None)[job]
    first = phase1.features(job, checkpoint).open()
    assert [len(X) for X in first.X] == [len(y) for y in first.y] == [200, 200, 200]
    assert first.head.shape == (2, 129) and first.test_env == 1 and first.sources == [0, 2]
    for env in range(3):
        rows = torch.cat([first.rows_in[env], first.rows_out[env]])
        assert rows.sort().values.equal(torch.arange(200)) and len(first.rows_out[env]) == 40
    other = checkpoint | {"0.0.weight": checkpoint["0.0.weight"] + 1}
    assert not torch.equal(phase1.features(job, other).open().X[0], first.X[0])
