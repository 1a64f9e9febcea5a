"""The bars that need a GPU, one after the other in one command.

    python benchmarks/gpu_bars.py --data MNIST --out gpu [--only sweep,fit] [--device cuda]

``sweep`` is the paper's 180 runs on Colored MNIST, ``fit`` a default fit of a million rows,
``jobs`` DomainBed's ERM job alone and twenty trials side by side against the faithful loop of
protocol_speed.py, and ``algorithms`` the sweep of published_table.py. Each is measured from nothing
to its end, the start of Python included where it is a command. What is measured is kept in
``gpu/bars.jsonl``, and not measured again. Where time is short, name one bar a call.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import protocol_speed
import torch
from common import machine, measure_once, table
from large_bank import STRENGTHS, draw

from regraft import CROClassifier
from regraft.bench.datasets import open_dataset
from regraft.bench.protocol.jobs import Job

HERE = Path(__file__).parent


def run(*words: object) -> float:
    """Return the seconds of a command in a process of its own."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *map(str, words)], check=True)
    return time.perf_counter() - start


def empty(folder: Path) -> Path:
    """Return ``folder`` without what an earlier measurement left, which a command would use."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def measure_sweep(options: argparse.Namespace) -> dict[str, Any]:
    """Time Colored MNIST's sweep: data, networks, features and games."""
    words = ["-m", "regraft", "reproduce", "cmnist", "--quiet", "--device", options.device]
    out = empty(options.out / "cmnist")
    return {"seconds": run(*words, "--data", options.data, "--out", out), "bar": "< 35 s"}


def measure_fit(options: argparse.Namespace) -> dict[str, Any]:
    """Time a default fit, the way of the rows to the GPU included."""
    domain = np.arange(options.rows) % len(STRENGTHS)
    X, y = draw(domain, options.features, 2, seed=0)
    model = CROClassifier(device=options.device)
    few = slice(min(options.rows, 3000))
    model.fit(X[few], y[few], domain[few])  # starts the GPU and its libraries
    start = time.perf_counter()
    model.fit(X, y, domain)
    seconds = time.perf_counter() - start
    shape = f"{options.rows:,} × {options.features}"
    return {"seconds": seconds, "bar": "< 15 s", "shape": shape}


def measure_jobs(options: argparse.Namespace) -> dict[str, Any]:
    """Time one ERM job, many trials of it side by side, and the loop of DomainBed's settings.

    The loop may stop early: its time for more steps follows from its pace behind the first
    evaluation. So may the trials, which are compared with the loop's time for as many steps.
    """
    protocol_speed.DEVICE = torch.device(options.device)
    dataset = open_dataset("ColoredMNIST", options.data)
    dataset.environments(0, torch.device("cpu"))  # reads the files
    job = Job("ColoredMNIST", "ERM", (0,), steps=options.steps)
    trials = [replace(job, trial_seed=i, steps=options.trial_steps) for i in range(options.trials)]
    protocol_speed.ours([replace(job, steps=11)], dataset)  # compiles kernels
    alone = protocol_speed.ours([job], dataset)["seconds"]
    together = protocol_speed.ours(trials, dataset)["seconds"]
    loop = protocol_speed.faithful(job, dataset, options.peer_steps)

    def peer(steps: int) -> float:
        return loop["seconds"] + loop["pace"] * (steps - options.peer_steps)

    return {
        "seconds": alone,
        "peer": peer(options.steps),
        "alone_ratio": peer(options.steps) / alone,
        "together": together,
        "together_ratio": len(trials) * peer(options.trial_steps) / together,
        "bar": f"alone ≥ 40 ×, {len(trials)} side by side ≥ 60 ×",
    }


def measure_algorithms(options: argparse.Namespace) -> dict[str, Any]:
    """Time the sweep of DomainBed's 34 algorithms; its table is printed."""
    words = [HERE / "published_table.py", "--data", options.data, "--device", options.device]
    out = empty(options.out / "algorithms")
    return {"seconds": run(*words, "--out", out), "bar": "< 900 s"}


BARS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "sweep": measure_sweep,
    "fit": measure_fit,
    "jobs": measure_jobs,
    "algorithms": measure_algorithms,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="Folder of MNIST's files.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", default=",".join(BARS), help="Some of the bars.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=768)
    parser.add_argument("--steps", type=int, default=5001, help="Of DomainBed's jobs.")
    parser.add_argument("--trial-steps", type=int, default=5001, help="Of jobs side by side.")
    parser.add_argument("--peer-steps", type=int, default=5001, help="Of the loop.")
    parser.add_argument("--trials", type=int, default=20, help="Jobs side by side.")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    name = torch.cuda.get_device_name() if options.device.startswith("cuda") else "no GPU"
    print(f"{machine()}, {name}\n", flush=True)
    settings = {"gpu": name, "rows": options.rows, "features": options.features}
    settings |= {"steps": options.steps, "trials": options.trials}
    settings |= {"trial_steps": options.trial_steps, "peer_steps": options.peer_steps}
    rows = []
    for bar in options.only.split(","):
        found = measure_once(
            options.out / "bars.jsonl",
            {"name": bar, **settings},
            partial(BARS[bar], options),
        )
        others = [f"{k} {v:.4g}" for k, v in found.items() if isinstance(v, float)]
        rows.append([bar, ", ".join(others), found["bar"]])
    print(table(["bar", "measured", "asked for"], rows))


if __name__ == "__main__":
    main()
