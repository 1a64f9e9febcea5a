"""How fast the protocol runs on one GPU, as ratios against peers in the same run.

    python benchmarks/protocol_speed.py --data MNIST_FOLDER --out results.json

The first peer is a faithful loop over batches with DomainBed's settings: worker processes for
every loader, evaluation of all splits in batches of 64. The second is our own code, one run after
another: recorded as it is, not recorded, and each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from regraft.bench.datasets import Dataset, open_dataset
from regraft.bench.protocol import training
from regraft.bench.protocol.evaluation import count_correct
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.run_folder import RunFolder
from regraft.bench.protocol.seeds import split, split_seed
from regraft.encoders.mnist_cnn import N_FEATURES, mnist_cnn
from regraft.support.files import write_text

DEVICE = torch.device("cuda")
WORKERS, BATCH, EVERY = 8, 64, 100
ROUNDS = 3  # of evaluations that are timed alone


def faithful(job: Job, dataset: Dataset, steps: int) -> dict[str, float]:
    """One ERM job as DomainBed runs it; the accuracies of its last evaluation, and seconds.

    ``pace`` is the seconds of a step behind the first evaluation, the later ones included.
    """
    start = time.perf_counter()
    environments = dataset.environments(job.seed, torch.device("cpu"))
    train, evaluate = [], {}
    for env, data in enumerate(environments):
        everything = torch.arange(len(data))
        x, y = data.inputs(everything), data.y
        for name, rows in zip(("in", "out"), split(len(data), split_seed(0, env)), strict=True):
            part = TensorDataset(x[rows], y[rows])
            evaluate[f"env{env}_{name}_acc"] = DataLoader(
                part, 64, shuffle=True, num_workers=WORKERS, persistent_workers=True
            )
            if name == "in" and env not in job.test_envs:
                sampler = RandomSampler(part, replacement=True, num_samples=BATCH * (steps + 100))
                loader = DataLoader(part, BATCH, sampler=sampler, num_workers=WORKERS)
                train.append(iter(loader))
    torch.manual_seed(job.seed)
    network = nn.Sequential(mnist_cnn(), nn.Linear(N_FEATURES, 2)).to(DEVICE)
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    shares, evaluation, begun = {}, 0.0, start
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=True):
        for step in range(steps):
            batches = [(x.to(DEVICE), y.to(DEVICE)) for x, y in _next(train)]
            x, y = (torch.cat(parts) for parts in zip(*batches, strict=True))
            loss = nn.functional.cross_entropy(network(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()  # it logs the loss of every step
            if step % EVERY == 0 or step == steps - 1:
                before = time.perf_counter()
                shares = {name: _accuracy(network, loader) for name, loader in evaluate.items()}
                evaluation += time.perf_counter() - before
                print(f"step {step}: {time.perf_counter() - start:.1f} s", flush=True)
                begun = time.perf_counter() if step == 0 else begun
    ended = time.perf_counter()
    pace = (ended - begun) / max(1, steps - 1)
    return {**shares, "seconds": ended - start, "evaluation": evaluation, "pace": pace}


def _next(loaders: list[Iterator[Any]]) -> list[tuple[Tensor, Tensor]]:
    return [tuple(next(loader)) for loader in loaders]  # type: ignore[misc]


def _accuracy(network: nn.Module, loader: DataLoader[Any]) -> float:
    correct = total = 0.0
    network.eval()
    with torch.no_grad():
        for x, y in loader:
            found = network(x.to(DEVICE)).argmax(1).eq(y.to(DEVICE))
            correct += found.float().sum().item()
            total += len(x)
    network.train()
    return correct / total


def ours(jobs: list[Job], dataset: Dataset, *, recorded: bool = True) -> dict[str, Any]:
    """The same jobs by our own code, side by side in this process; records and seconds."""
    start = time.perf_counter()
    records: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        trainings = []
        for job in jobs:
            path = Path(folder) / job.id
            path.mkdir()
            trainings.append(
                training.Training(
                    job, dataset, RunFolder(path, job.id), device=DEVICE, recorded=recorded
                )
            )
        made = time.perf_counter()
        failures = training.train(trainings, lambda job, record: records.update({job.id: record}))
        if failures:
            raise RuntimeError(str(failures))
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "making": made - start, "records": records}


def process(job: Job, data: Path) -> float:
    """Seconds of one job as a command of its own."""
    with tempfile.TemporaryDirectory() as folder:
        code = "from regraft.cli.app import main; main()"
        options = {
            "algorithm": job.algorithm,
            "hparams-seed": job.hparams_seed,
            "steps": job.steps,
            "data": data,
            "out": folder,
            "device": DEVICE,
        }
        line = [f"--{name}={value}" for name, value in options.items()]
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code, "train", *line], check=True)
        return time.perf_counter() - start


def time_parts(job: Job, dataset: Dataset) -> dict[str, float]:
    """Seconds of one evaluation and of one step of a recorded run."""
    with tempfile.TemporaryDirectory() as folder:
        run = training.Training(job, dataset, RunFolder(Path(folder), job.id), device=DEVICE)
        for _ in range(10):
            run.advance()
            run.settle()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(80):
            run.advance()
        torch.cuda.synchronize()
        step = (time.perf_counter() - start) / 80
        data = run._data
        start = time.perf_counter()
        for _ in range(ROUNDS):
            count_correct(run._algorithm, data.environments, data.splits, {}).tolist()
        evaluation = (time.perf_counter() - start) / ROUNDS
    return {"step": step, "evaluation": evaluation}


def kernels(job: Job, dataset: Dataset) -> list[tuple[str, float]]:
    """The kernels that a run's time goes to, and their share."""
    with tempfile.TemporaryDirectory() as folder:
        run = training.Training(job, dataset, RunFolder(Path(folder), job.id), device=DEVICE)
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            training.train([run])
            torch.cuda.synchronize()
    events = sorted(profiler.key_averages(), key=lambda e: -e.self_device_time_total)
    total = sum(event.self_device_time_total for event in events)
    return [(event.key[:90], event.self_device_time_total / total) for event in events[:12]]


def time_sweep(dataset: Dataset, data: Path, configs: int, steps: int) -> dict[str, float]:
    """Seconds of all configurations side by side, and one after another in three ways."""
    sweep = [Job("ColoredMNIST", "ERM", (0,), hparams_seed=i, steps=steps) for i in range(configs)]
    together = ours(sweep, dataset)["seconds"]
    one_by_one = sum(ours([one], dataset)["seconds"] for one in sweep)
    eager = sum(ours([one], dataset, recorded=False)["seconds"] for one in sweep)
    some = sweep[:: max(1, len(sweep) // 3)]
    own = sum(process(one, data) for one in some) * len(sweep) / len(some)
    return {
        "steps": steps,
        "configs": configs,
        "together": together,
        "recorded": one_by_one,
        "unrecorded": eager,
        "processes": own,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=5001)
    parser.add_argument("--peer-steps", type=int, default=5001)
    parser.add_argument("--configs", type=int, default=20, help="0 leaves the sweep out")
    parser.add_argument("--sweep-steps", type=int, default=1001)
    options = parser.parse_args()
    dataset = open_dataset("ColoredMNIST", options.data)
    dataset.environments(0, torch.device("cpu"))  # reads the files
    result: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}

    def tell(name: str, value: Any) -> None:
        result[name] = value
        print(name, json.dumps(value), flush=True)
        write_text(options.out, json.dumps(result, indent=2))

    job = Job("ColoredMNIST", "ERM", (0,), steps=options.steps)
    ours([Job("ColoredMNIST", "ERM", (0,), steps=11)], dataset)  # compiles kernels, once a machine
    alone = ours([job], dataset)
    record = alone.pop("records")[job.id]
    shares = {name: value for name, value in record.items() if name.endswith("_acc")}
    tell("ours", {**shares, **alone})
    tell("parts", time_parts(job, dataset))
    tell("kernels", kernels(Job("ColoredMNIST", "ERM", (0,), steps=301), dataset))

    if options.configs:
        tell("sweep", time_sweep(dataset, options.data, options.configs, options.sweep_steps))
    peer = faithful(job, dataset, options.peer_steps)
    tell("peer", {"steps": options.peer_steps, **peer})
    scale = options.steps / options.peer_steps
    tell("ratio", scale * peer["seconds"] / alone["seconds"])


if __name__ == "__main__":
    main()
