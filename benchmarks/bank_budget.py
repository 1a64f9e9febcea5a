"""How long a full sweep of every algorithm on the PACS bank would take, from a fraction of it.

    python benchmarks/feature_banks.py banks
    python benchmarks/bank_budget.py banks [--configs 2] [--algorithms ERM,Fishr]

Runs are timed in processor seconds of one thread: trial 0, the first configurations, the first
domain held out. The full sweep has 20 configurations, 3 trials and 4 held-out domains of each
algorithm; its time on two cores is the mean of the runs times their number, over two. Starting
the workers and reading the bank, once for each worker, is not in it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch

from regraft.bench.algorithms import algorithms
from regraft.bench.datasets import open_dataset
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.worker import Assignment, perform

RUNS, CORES = 20 * 3 * 4, 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--configs", type=int, default=2)
    parser.add_argument("--algorithms", default=",".join(algorithms()))
    args = parser.parse_args()
    names = args.algorithms.split(",")
    torch.set_num_threads(1)
    bank = open_dataset("PACSFeatures", args.data)
    means = {}
    with tempfile.TemporaryDirectory() as out:
        for name in ["ERM", *names]:  # the first ERM, counted no more, reads what all need
            seconds = 0.0
            for config in range(args.configs):
                job = Job(bank.name, name, (0,), hparams_seed=config, fingerprint=bank.fingerprint)
                start = time.process_time()
                (outcome,) = perform(Assignment((job,), Path(out) / str(len(means))), dataset=bank)
                seconds += time.process_time() - start
                if outcome.state != "done":
                    raise SystemExit(f"{job.label}: {outcome.message}")
            means[name] = seconds / args.configs
            print(f"{name:14} {means[name]:7.2f} s a run", flush=True)
    total = sum(means[name] for name in names)
    hours = total * RUNS / CORES / 3600
    print(f"{len(names)} algorithms: {total:.1f} s for a run of each, {RUNS * len(names)} runs:")
    print(f"{hours:.2f} hours on {CORES} cores, extrapolated from {args.configs * len(names)} runs")


if __name__ == "__main__":
    main()
