"""How a server of ``regraft serve`` bears a steady load.

    python benchmarks/serve.py [--seconds 60] [--rate 200] [--rows 100] [--workers 1] [--cores 2]

A head of a table with numbers, gaps and categories is fitted and served. Clients in a process of
their own send requests at fixed times, whether earlier ones are answered or not; the time of an
answer counts from when its request was due, so that waiting in line is not left out. Server and
clients share the cores. Memory is that of the server's processes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from regraft import ERMClassifier, TableFeatures, make_confounded_domains, save

_CONNECTIONS = 32
_BODIES = 20  # different ones, sent in turn


def make_table(n: int) -> tuple[dict[str, Any], Any, Any]:
    """Ten columns of numbers, of which two have gaps, and three of categories."""
    rng = np.random.default_rng(0)
    data = make_confounded_domains(n, strengths=(0.9, 0.7), n_features=10, random_state=0)
    m = len(data.y)
    table: dict[str, Any] = {f"number {j}": column.round(4) for j, column in enumerate(data.X.T)}
    for j in range(2):
        table[f"number {j}"] = np.where(rng.random(m) < 0.1, np.nan, table[f"number {j}"])
    for j, size in enumerate((2, 5, 12)):
        names = np.array([f"category {k}" for k in range(size)], dtype=object)
        table[f"text {j}"] = names[rng.integers(size, size=m)]
    return table, data.y, data.sample_domain


def make_bodies(table: dict[str, Any], rows: int) -> list[bytes]:
    """Requests as JSON, each with other rows."""
    columns = {
        name: [None if cell != cell else cell for cell in column.tolist()]
        for name, column in table.items()
    }
    every = [
        dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)
    ]
    pick = np.random.default_rng(1)
    return [
        json.dumps({"rows": [every[i] for i in pick.integers(len(every), size=rows)]}).encode()
        for _ in range(_BODIES)
    ]


async def _send(url: str, bodies: list[bytes], rate: float, seconds: float) -> list[Any]:
    import httpx

    limits = httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS)
    head = {"content-type": "application/json"}
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=30) as client:

        async def ask(i: int, due: float) -> tuple[float, int]:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            try:
                answer = await client.post("/predict", content=bodies[i % _BODIES], headers=head)
                status = answer.status_code
            except httpx.HTTPError:
                status = 0
            return time.perf_counter() - due, status

        for i in range(_BODIES):  # connections are opened before the clock runs
            await ask(i, time.perf_counter())
        start = time.perf_counter() + 0.1
        tasks = []
        for i in range(int(rate * seconds)):
            due = start + i / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter() - 0.05))
            tasks.append(asyncio.create_task(ask(i, due)))
        return await asyncio.gather(*tasks)


def send(url: str, bodies: list[bytes], rate: float, seconds: float, pipe: Any) -> None:
    pipe.send(asyncio.run(_send(url, bodies, rate, seconds)))


def measure_memory(pid: int) -> float:
    """Resident memory (MiB) of a process and those that it started; Linux alone tells."""
    total = 0.0
    for process in (pid, *_children(pid)):
        status = Path(f"/proc/{process}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        total += int(line.split()[1]) / 1024
    return total


def _children(pid: int) -> list[int]:
    texts = (path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    return [int(child) for text in texts for child in text.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=200.0, help="requests a second")
    parser.add_argument("--rows", type=int, default=100, help="rows of a request")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--cores", type=int, default=2, help="for server and clients together")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    table, y, domain = make_table(1000)
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Pipeline([("table", TableFeatures()), ("head", ERMClassifier())])
        save(model.fit(table, y, head__sample_domain=domain), Path(folder) / "model")
        words = ["serve", f"{folder}/model", "--port", "0", "--workers", str(options.workers)]
        server = subprocess.Popen(
            [sys.executable, "-m", "regraft", *words, "--json"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            time.sleep(1 if options.workers == 1 else 3)
            run(url, server.pid, make_bodies(table, options.rows), options)
        finally:
            server.terminate()
            code = server.wait(timeout=30)
    print(f"stopped by SIGTERM with exit code {code}")


def run(url: str, pid: int, bodies: list[bytes], options: argparse.Namespace) -> None:
    warm = 2.0  # seconds of load before memory is measured
    for seconds in (warm, options.seconds):
        before = measure_memory(pid)
        ours, theirs = multiprocessing.Pipe()
        arguments = (url, bodies, options.rate, seconds, theirs)
        client = multiprocessing.get_context("spawn").Process(target=send, args=arguments)
        client.start()
        answers = ours.recv()
        client.join()
    after = measure_memory(pid)
    times = 1000 * np.array([each[0] for each in answers])
    errors = sum(status != 200 for _, status in answers)
    sizes = f"{options.rows} rows ({len(bodies[0]) / 1024:.0f} KiB)"
    print(
        f"{len(answers):,} requests of {sizes}, {options.rate:g} a second for "
        f"{options.seconds:g} s, {options.workers} worker(s) on {options.cores} cores"
    )
    p50, p99 = np.percentile(times, [50, 99])
    print(f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, largest {times.max():.1f} ms, errors {errors}")
    print(f"memory of the server: {before:.1f} MiB before, {after:.1f} MiB after")


if __name__ == "__main__":
    main()
