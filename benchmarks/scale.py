"""Fits of ever more rows: time, memory and bytes to the driver, by engine and number of workers.

python benchmarks/scale.py [--rows 1000,10000,100000,1000000] [--features 64] [--folder FOLDER]

Makes banks of the problem of benchmarks/large_bank.py unless FOLDER has them, and fits each in
processes of their own: with the engine local, and with one and two actors of a Ray on this machine.
Add 10000000 to --rows for the largest one, 2.6 GB on disk. Writes benchmarks/results/scale.json,
and prints a table with the cost of a cluster, computed from what a row costs here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from common import HERE, machine, table
from large_bank import make, peak

from regraft.core.row_sums import RowChunk, Sums
from regraft.data.banks import is_bank
from regraft.support.files import write_text

MEASURE = "import scale, sys; scale.measure(*sys.argv[1:])"
ENGINES = (("local", 0), ("ray", 1), ("ray", 2))
CLUSTER_ROWS, CLUSTER_WORKERS = 10**8, 64


def worker_sums(chunk: RowChunk) -> Sums:
    """Peak bytes and seconds of a core of the process that holds a chunk, and 1 for the chunk."""
    return (torch.tensor([float(peak()), time.process_time(), 1.0], dtype=torch.float64),)


def measure(folder: str, name: str, workers: str) -> None:
    """In a process of its own: fit a bank; prints JSON."""
    from regraft import CROClassifier
    from regraft.data.columns import ColumnChoice
    from regraft.data.row_engines import RayShards, open_engine, open_large_table
    from regraft.data.row_files import open_row_files
    from regraft.estimators.streamed import SAMPLE_ROWS, fit_on_rows

    model = CROClassifier()
    files = open_row_files(Path(folder), "label", "domain")
    options: dict[str, Any] = {"memory": None, "address": None, "workers": int(workers) or None}
    held: list[list[float]] = []
    received = 0
    with open_engine(name, files, **options) as engine:
        start, used = time.perf_counter(), time.process_time()
        large = open_large_table(engine, ColumnChoice(), SAMPLE_ROWS)
        if large.is_whole:
            model.fit(large.sample.X, large.sample.y, large.sample.domain)
        else:
            fit_on_rows(model, large.sample, large.rows, large.counts)
        seconds, used = time.perf_counter() - start, time.process_time() - used
        if isinstance(engine, RayShards) and not large.is_whole:
            received = engine.bytes_received
            for actor in engine.actors:
                [sums, *_] = engine._get([actor.sums.remote(large.rows.plan, worker_sums, ())])[0]
                most, own, chunks = sums[0].tolist()
                held.append([most / chunks, own / chunks])
    result = {
        "seconds": seconds,
        "cpu_seconds": used + sum(own for _, own in held),
        "driver_peak_bytes": peak(),
        "worker_peak_bytes": max((most for most, _ in held), default=0),
        "received_bytes": received,
        "coefficients": model.coef_.tolist(),
        "risk": model.certificate_.risk,
    }
    print(json.dumps(result))


def in_own_process(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-c", MEASURE, *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, cwd=HERE, env=environment
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def report(result: dict[str, Any]) -> str:
    """The result in Markdown, and the cost of a cluster."""
    rows = [
        [
            f"{run['rows']:,}",
            run["engine"],
            f"{run['seconds']:.0f}",
            f"{run['cpu_seconds']:.0f}",
            f"{run['driver_peak_bytes'] / 1e9:.2f}",
            f"{run['worker_peak_bytes'] / 1e9:.2f}" if run["worker_peak_bytes"] else "–",
            f"{run['received_bytes'] / 1e6:.1f}" if run["received_bytes"] else "–",
        ]
        for run in result["runs"]
    ]
    header = "rows", "engine", "seconds", "seconds of a core", "driver, GB", "worker, GB"
    return table([*header, "sums to the driver, MB"], rows) + "\n\n" + estimate(result)


def estimate(result: dict[str, Any]) -> str:
    """The cost of a cluster from the slope between the two largest fits of each engine."""
    fits = {e: [r for r in result["runs"] if r["engine"] == e] for e in ("local", "ray, 2 workers")}
    (less, more), ray = fits["local"][-2:], fits["ray, 2 workers"][-1]
    slope = (more["cpu_seconds"] - less["cpu_seconds"]) / (more["rows"] - less["rows"])
    fixed = max(more["cpu_seconds"] - slope * more["rows"], 0.0)
    share = CLUSTER_ROWS / CLUSTER_WORKERS
    row_bytes = 4 * result["features"] + 4
    return (
        f"A row costs {1e6 * slope:.0f} microseconds of a core beyond the sample, and {row_bytes} "
        f"bytes of a worker's memory. {CLUSTER_ROWS:,} rows on {CLUSTER_WORKERS} workers: about "
        f"{fixed + slope * share:.0f} seconds, {row_bytes * share / 1e9:.1f} GB of rows in each "
        f"worker, and {ray['received_bytes'] * CLUSTER_ROWS / ray['rows'] / 1e9:.1f} GB of sums to "
        "the driver, which grow with the number of blocks of 131,072 rows."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=HERE / "data" / "scale")
    parser.add_argument("--rows", default="1000,10000,100000,1000000")
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "scale.json")
    options = parser.parse_args()
    runs = []
    for n in map(int, options.rows.split(",")):
        folder = options.folder.resolve() / f"{n}x{options.features}"
        if not is_bank(folder):
            make(folder, n, options.features, 2)
        for name, workers in ENGINES:
            named = f"{name}, {workers} worker{'s' * (workers > 1)}" if workers else name
            found = in_own_process(str(folder), name, str(workers))
            runs.append({"rows": n, "engine": named, **found})
            print(n, named, f"{found['seconds']:.1f} s", flush=True)
    result = {"machine": machine(), "features": options.features, "runs": runs}
    write_text(options.out, json.dumps(result, indent=2) + "\n")
    print(report(result))


if __name__ == "__main__":
    main()
