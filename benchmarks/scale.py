"""Fits of ever more rows: time, memory and bytes on the network, by engine and number of workers.

python benchmarks/scale.py [--rows 1000,…,10000000] [--ray-rows 1000000] [--folder FOLDER]
    [--workers 1,2,4] [--nodes 1] [--kill SECONDS] [--figure docs/figures]

Makes banks of the problem of benchmarks/large_bank.py unless FOLDER has them, and fits each in a
process of its own: with the engine local, and up to --ray-rows with actors of a Ray on this
machine, of one node or more. With --kill, one actor after the other is killed, again and again.
Each fit is written to benchmarks/results/scale.jsonl when it ends, and a run that is started again
goes on where it stopped. Prints a table with the cost of a cluster, computed from what a row costs
here, and draws the seconds of a core with --figure.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, is_dataclass
from pathlib import Path
from typing import Any

import torch
from common import HERE, machine, measure_once, table
from large_bank import make, peak

from regraft.core.row_sums import RowChunk, Sums
from regraft.data.banks import is_bank
from regraft.support.charts import seconds_chart
from regraft.support.pictures import picture, write_figure
from regraft.support.records import Records

MEASURE = "import scale, sys; scale.measure(*sys.argv[1:])"
CLUSTER_ROWS, CLUSTER_WORKERS = 10**8, 64
MEMORY = 10**9  # for the engine local


def worker_sums(chunk: RowChunk) -> Sums:
    """Peak bytes and seconds of a core of the process that holds a chunk, and 1 for the chunk."""
    return (torch.tensor([float(peak()), time.process_time(), 1.0], dtype=torch.float64),)


def count_bytes(value: Any) -> int:
    """Bytes of all tensors in arguments of a step."""
    if isinstance(value, torch.Tensor):
        return value.nbytes
    if is_dataclass(value) and not isinstance(value, type):
        value = astuple(value)
    return sum(map(count_bytes, value)) if isinstance(value, tuple | list) else 0


@contextmanager
def cluster(workers: int, nodes: int) -> Iterator[None]:
    """A Ray on this machine, with a core for each worker, on one node or more."""
    from regraft.support.ray_clusters import import_ray

    if not workers:
        yield
        return
    ray = import_ray()
    from ray.cluster_utils import Cluster

    share = -(-workers // nodes)
    started = Cluster(initialize_head=True, head_node_args={"num_cpus": share})
    for _ in range(nodes - 1):
        started.add_node(num_cpus=share)
    started.connect()
    try:
        yield
    finally:
        ray.shutdown()
        started.shutdown()


@contextmanager
def killing(engine: Any, seconds: float) -> Iterator[list[float]]:
    """Kill an actor of the engine every so many seconds; yields the times of the kills."""
    from regraft.support.ray_clusters import import_ray

    over, kills = threading.Event(), list[float]()

    def kill() -> None:
        while not over.wait(seconds):
            victim = engine.actors[len(kills) % len(engine.actors)]
            import_ray().kill(victim, no_restart=False)
            kills.append(time.perf_counter())

    thread = threading.Thread(target=kill)
    if seconds:
        thread.start()
    try:
        yield kills
    finally:
        over.set()
        if seconds:
            thread.join()


def measure(folder: str, workers: str, nodes: str, kill: str) -> None:
    """In a process of its own: fit a bank; prints JSON."""
    from regraft import CROClassifier
    from regraft.data.columns import ColumnChoice
    from regraft.data.row_engines import RayShards, open_engine, open_large_table
    from regraft.data.row_files import open_row_files
    from regraft.estimators.streamed import SAMPLE_ROWS, fit_on_rows
    from regraft.support.ray_clusters import fetch

    model = CROClassifier()
    files = open_row_files(Path(folder), "label", "domain")
    count = int(workers)
    options: dict[str, Any] = {"memory": None if count else MEMORY, "address": None}
    steps, sent, received, held = 0, 0, 0, list[list[float]]()
    with (
        cluster(count, int(nodes)),
        open_engine("ray" if count else "local", files, workers=count or None, **options) as engine,
        killing(engine, float(kill)) as kills,
    ):
        add_up = engine.sum

        def counted(plan: Any, function: Any, arguments: tuple[Any, ...]) -> Sums:
            nonlocal steps, sent
            steps, sent = steps + 1, sent + count_bytes(arguments)
            return add_up(plan, function, arguments)

        engine.sum = counted  # type: ignore[method-assign]
        start, used = time.perf_counter(), time.process_time()
        large = open_large_table(engine, ColumnChoice(), SAMPLE_ROWS)
        if large.is_whole:
            model.fit(large.sample.X, large.sample.y, large.sample.domain)
        else:
            fit_on_rows(model, large.sample, large.rows, large.counts)
        seconds, used = time.perf_counter() - start, time.process_time() - used
        if isinstance(engine, RayShards):
            received = engine.bytes_received + large.sample.X.nbytes
            for actor in engine.actors if steps else ():
                step = actor.sums.remote(large.rows.plan, worker_sums, (), slice(0, 1))
                [[[most, own, chunks]]] = fetch([step])[0]
                held.append([float(most / chunks), float(own / chunks)])
    result = {
        "seconds": seconds,
        "cpu_seconds": used + sum(own for _, own in held),
        "driver_peak_bytes": peak(),
        "worker_peak_bytes": max((most for most, _ in held), default=0),
        "passes": steps,
        "sent_bytes": sent * count,
        "received_bytes": received,
        "kills": len(kills),
        "coefficients": model.coef_.tolist(),
        "risk": model.certificate_.risk_bound,
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


def name(run: Mapping[str, Any]) -> str:
    """The engine of a run in words."""
    if not run["workers"]:
        return "local"
    words = f"Ray, {run['workers']} worker{'s' * (run['workers'] > 1)}"
    words += f" on {run['nodes']} nodes" * (run["nodes"] > 1)
    return words + f", one killed every {run['kill']:g} s" * bool(run["kill"])


def report(runs: Sequence[Mapping[str, Any]]) -> str:
    """The result in Markdown, and the cost of a cluster."""
    rows = []
    for run in sorted(runs, key=lambda each: each["rows"]):
        same = [each for each in runs if each["rows"] == run["rows"] and name(each) == "local"]
        theirs = same[0]["coefficients"][0] if same else []
        away = [abs(a - b) for a, b in zip(run["coefficients"][0], theirs, strict=False)]
        rows.append(
            [
                f"{run['rows']:,}",
                name(run),
                f"{run['seconds']:.0f}",
                f"{run['cpu_seconds']:.0f}",
                run["passes"] or "–",
                f"{run['driver_peak_bytes'] / 1e9:.2f}",
                *(
                    f"{run[key] / unit:.{digits}f}" if run[key] else "–"
                    for key, unit, digits in (
                        ("worker_peak_bytes", 1e9, 2),
                        ("sent_bytes", 1e6, 1),
                        ("received_bytes", 1e6, 1),
                    )
                ),
                run["kills"] or "–",
                f"{max(away):.0e}" if away and name(run) != "local" else "–",
            ]
        )
    header = (
        *("rows", "engine", "seconds", "seconds of a core", "passes", "driver, GB", "worker, GB"),
        *("to workers, MB", "to the driver, MB", "kills", "away from local"),
    )
    return table(header, rows) + "\n\n" + estimate(runs)


def slope_of(runs: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    """Seconds of a core for a row, and for no row, from the two largest local fits in parts.

    None if there are fewer: tables that are not larger than the sample are fitted in memory.
    """
    in_parts = [run for run in runs if name(run) == "local" and run["passes"]]
    if len(in_parts) < 2:
        return None
    less, more = sorted(in_parts, key=lambda run: run["rows"])[-2:]
    slope = (more["cpu_seconds"] - less["cpu_seconds"]) / (more["rows"] - less["rows"])
    return slope, max(more["cpu_seconds"] - slope * more["rows"], 0.0)


def estimate(runs: Sequence[Mapping[str, Any]]) -> str:
    """The cost of a cluster, on paper."""
    found = slope_of(runs)
    if found is None:
        return "What a row costs is not known: it takes two fits of more rows than the sample has."
    slope, fixed = found
    features = runs[0]["features"]
    share, row_bytes = CLUSTER_ROWS / CLUSTER_WORKERS, 4 * features + 8
    words = (
        f"A million rows of {features} features cost {1e6 * slope:.1f} seconds of a core beyond "
        f"the {fixed:.0f} of the sample, {1e6 * slope / features:.2f} for each feature, and a row "
        f"has {row_bytes} bytes in a worker. {CLUSTER_ROWS:,} rows on {CLUSTER_WORKERS} workers, "
        f"on paper: about {fixed + slope * share:.0f} seconds, and {row_bytes * share / 1e9:.1f} "
        "GB of rows in each worker"
    )
    on_ray = sorted((run for run in runs if run["received_bytes"]), key=lambda run: run["rows"])
    if not on_ray:
        return words + "."
    ray = on_ray[-1]
    sums = ray["received_bytes"] / ray["rows"] * CLUSTER_ROWS
    sent = ray["sent_bytes"] / ray["workers"] * CLUSTER_WORKERS
    return (
        f"{words}; at most {sums / 1e9:.1f} GB of sums to the driver, and {sent / 1e6:.0f} MB of "
        "heads to workers."
    )


def draw(runs: Sequence[Mapping[str, Any]], stem: Path) -> list[Path]:
    """Draw seconds of a core over rows, a line for each engine that was never killed."""
    lines: dict[str, dict[float, float]] = {}
    for run in sorted(runs, key=lambda each: (each["workers"], each["rows"])):
        if not run["kill"] and run["nodes"] == 1:
            lines.setdefault(name(run), {})[run["rows"]] = round(run["cpu_seconds"], 2)
    drawn = picture(seconds_chart(lines), "Time of a fit", f"{runs[0]['features']} features")
    return write_figure(drawn, stem, ("png", "svg"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=HERE / "data" / "scale")
    parser.add_argument("--rows", default="1000,10000,100000,1000000,10000000")
    parser.add_argument("--ray-rows", type=int, default=10**6)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--kill", type=float, default=0.0)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "scale.jsonl")
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    path = options.out
    path.parent.mkdir(parents=True, exist_ok=True)
    for n in map(int, options.rows.split(",")):
        folder = options.folder.resolve() / f"{n}x{options.features}"
        for workers in (0, *map(int, options.workers.split(","))):
            if workers and n > options.ray_rows:
                continue
            nodes, kill = (options.nodes, options.kill) if workers else (1, 0.0)
            run = {"rows": n, "features": options.features, "machine": machine()}
            run |= {"workers": workers, "nodes": nodes, "kill": kill}
            print(f"{n:,} rows, {name(run)} ...", flush=True)
            if not is_bank(folder):
                make(folder, n, options.features, 2)
            given = str(folder), str(workers), str(nodes), str(kill)
            found = measure_once(path, run, lambda given=given: in_own_process(*given))
            print(f"  {found['seconds']:.1f} s", flush=True)
    runs = [{**record["args"], **record} for record in Records(path).read()]
    print(report(runs))
    if options.figure:
        print(*draw(runs, options.figure / "scale"))


if __name__ == "__main__":
    main()
