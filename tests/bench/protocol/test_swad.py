"""SWAD against a slow account of it, by itself and in runs that are stopped."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from regraft.bench.datasets import Dataset
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.models import load_model
from regraft.bench.protocol.run_folder import RunFolder
from regraft.bench.protocol.swad import N_END, N_START, TOLERANCE, ValleyAverage, renew_statistics
from regraft.bench.protocol.training import Training, train

CPU = torch.device("cpu")
EVERY, STEPS = 4, 81


def slow_mean(weights: list[Tensor], losses: list[float], ends: list[int]) -> Tensor | None:
    """The mean over the steps of all segments that count, with everything known."""
    starts = [0, *(end + 1 for end in ends[:-1])]
    for s in range(len(losses) - N_START + 1):
        window = losses[s : s + N_START]
        if window[0] == min(window):
            break
    else:
        return None
    threshold = TOLERANCE * math.fsum(window) / N_START
    counted: list[Tensor] = []
    for e in range(s, len(losses)):
        if all(loss > threshold for loss in losses[e : e + N_END]):
            break
        counted += weights[starts[e] : ends[e] + 1]
    return torch.stack(counted).mean(dim=0)


def feed(average: ValleyAverage, weights: list[Tensor], losses: list[float], first: int) -> None:
    for step in range(first, len(weights)):
        average.add(step, {"w": weights[step]})
        if step % EVERY == 0:
            average.judge(losses[step // EVERY])


@pytest.mark.parametrize("seed", range(12))
def test_the_average_is_the_mean_over_the_valley(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = STEPS // EVERY + 1
    bottom = rng.uniform(2, n)
    losses = (1 + 0.02 * (np.arange(n) - bottom) ** 2 + rng.normal(0, 0.1, n)).tolist()
    weights = list(torch.from_numpy(rng.standard_normal((STEPS, 5))))
    expected = slow_mean(weights, losses, list(range(0, STEPS, EVERY)))
    whole, first = ValleyAverage(), ValleyAverage()
    feed(whole, weights, losses, 0)
    stop = int(rng.integers(1, STEPS))
    feed(first, weights[:stop], losses, 0)
    second = ValleyAverage()
    state = {name: value.clone() for name, value in first.state().items()}
    rest = second.load_state({**state, "other": torch.ones(1)}, CPU)
    assert rest.keys() == {"other"}
    feed(second, weights, losses, stop)
    for average in (whole, second):
        found = average.finish()
        assert (found is None) == (expected is None)
        if found is not None and expected is not None:
            torch.testing.assert_close(found["w"], expected, atol=1e-9, rtol=1e-9)
    assert whole.summary() == second.summary()


def test_a_loss_that_never_stops_falling_has_no_average() -> None:
    average = ValleyAverage()
    feed(average, [torch.zeros(2)] * STEPS, [-float(i) for i in range(STEPS)], 0)
    assert average.finish() is None
    assert average.summary() == {"swad_steps": None}


def job_of(toy: Dataset, algorithm: str = "ERM", **settings: Any) -> Job:
    settings = {"steps": STEPS, "checkpoint_freq": EVERY, "swad": True} | settings
    overrides = '{"lr": 0.01}'
    return Job(
        toy.name, algorithm, (0,), fingerprint=toy.fingerprint, overrides=overrides, **settings
    )


def begin(job: Job, toy: Dataset, path: Path, **options: Any) -> Training:
    path.mkdir(parents=True, exist_ok=True)
    return Training(job, toy, RunFolder(path, job.id), device=CPU, keep_model=True, **options)


def test_a_run_records_the_averaged_network(toy: Dataset, tmp_path: Path) -> None:
    job = job_of(toy)
    assert job.id != job_of(toy, swad=False).id
    training = begin(job, toy, tmp_path / "whole")
    data, algorithm = training._data, training._algorithm
    weights, losses = [], []
    for step in range(STEPS):
        if step == STEPS - 1:  # the last step replaces the weights by their mean
            follower = begin(job_of(toy, swad=False), toy, tmp_path / "plain")
            while follower._next < STEPS:
                follower.advance()
                follower.settle()
            algorithm = follower._algorithm
        else:
            training.advance()
            training.settle()
        weights.append(nn.utils.parameters_to_vector(algorithm.parameters()).detach().double())
        if step % EVERY == 0:
            held_out = []
            for split in data.splits:
                if split.name == "out" and split.env != 0:
                    env = data.environments[split.env]
                    with torch.no_grad():
                        logits = algorithm.predict(env.inputs(split.rows))
                    held_out.append(float(functional.cross_entropy(logits, env.y[split.rows])))
            losses.append(sum(held_out) / 2)
    train([training])
    expected = slow_mean(weights, losses, list(range(0, STEPS, EVERY)))
    assert expected is not None
    model = load_model(tmp_path / "whole" / "model.safetensors")
    found = nn.utils.parameters_to_vector(model.algorithm.parameters()).detach()
    torch.testing.assert_close(found.double(), expected, atol=1e-6, rtol=1e-5)
    (record,) = RunFolder(tmp_path / "whole", job.id).records()
    assert record["step"] == STEPS - 1 and record["swad_steps"][1] <= STEPS - 1
    rows = data.splits[0].rows  # "in" of the held-out environment
    answers = model.algorithm.predict(data.environments[0].inputs(rows)).argmax(dim=1)
    share = (answers == data.environments[0].y[rows]).double().mean()
    assert record["env0_in_acc"] == pytest.approx(float(share), abs=1e-12)


@pytest.mark.parametrize("name", ["ERM", "CRO", "ERMPlusPlus"])
def test_a_stopped_run_ends_with_the_same_average(name: str, toy: Dataset, tmp_path: Path) -> None:
    job = job_of(toy, name)
    assert not train([begin(job, toy, tmp_path / "whole")])
    stopped = begin(job, toy, tmp_path / "parts", save_every=0.0)
    for _ in range(50):
        stopped.advance()
        stopped.settle()
    assert not train([begin(job, toy, tmp_path / "parts")])
    models = [
        load_model(tmp_path / part / "model.safetensors").algorithm.state_dict()
        for part in ("whole", "parts")
    ]
    assert [key for key in models[0] if not torch.equal(models[0][key], models[1][key])] == []


def test_batch_normalization_learns_its_statistics_again() -> None:
    torch.manual_seed(0)
    reached, frozen, unreached = nn.BatchNorm1d(3), nn.BatchNorm1d(3), nn.BatchNorm1d(3)

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(3, 3), reached, frozen)
            self.other = unreached

        def train(self, mode: bool = True) -> "Network":
            super().train(mode)
            frozen.eval()
            return self

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.layers(x)
            return result

    network = Network().double()
    for layer in (frozen, unreached):
        assert layer.running_var is not None
        layer.running_var.fill_(7.0)
    batches = [torch.randn(8, 3, dtype=torch.float64) for _ in range(4)]
    renew_statistics(network, batches)
    inner = [network.layers[0](x) for x in batches]
    mean = torch.stack([z.mean(dim=0) for z in inner]).mean(dim=0)
    variance = torch.stack([z.var(dim=0) for z in inner]).mean(dim=0)
    torch.testing.assert_close(reached.running_mean, mean, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(reached.running_var, variance, atol=1e-9, rtol=1e-9)
    assert reached.momentum == 0.1
    for layer in (frozen, unreached):
        assert layer.running_var is not None and (layer.running_var == 7).all()
