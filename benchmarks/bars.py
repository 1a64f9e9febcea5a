"""The bars for speed: fits as ratios to one LogisticRegression in the same run, and small data.

python benchmarks/bars.py [--only hull] [--repeats 5] [--processor]

Ours and scikit-learn's are fitted in turn, and the medians are compared. The peer is fitted with
the threads that it takes by itself and with one. The bar is held against the faster of the two: its
threads may wait for each other, and a peer that is slow for that reason proves nothing.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from common import CELLS, SHARED, load_cell, machine, table
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from regraft import CROClassifier

SEED = 0


@dataclass(frozen=True)
class Bar:
    """A whole default fit, and how many times as long as its peer it may take."""

    name: str
    family: str
    most: float
    load: Callable[[], tuple[np.ndarray, np.ndarray, np.ndarray]]


def draw_small(n: int = 900, d: int = 30) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three sources; a second feature goes with the label in 95, 80 and 55 % of their rows."""
    rng = np.random.default_rng(SEED)
    y, domain = rng.integers(2, size=n), np.arange(n) % 3
    colour = y ^ (rng.random(n) > np.array([0.95, 0.8, 0.55])[domain])
    X = rng.standard_normal((n, d))
    X[:, 0] += y
    X[:, 1] += 4.0 * colour
    return X, y, domain


def load_colours(target: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    cell = load_cell(target, 12_000)
    return cell.X, cell.y, cell.domain


def load_pacs(target: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    with np.load(SHARED / "pacs" / "efficientnet_lite0.npz", allow_pickle=False) as data:
        kept = data["domain"] != target
        return data["X"].astype(np.float64)[kept], data["y"][kept], data["domain"][kept]


def list_bars() -> Iterator[Bar]:
    for target in (2, 0, 1):
        for family, most in (("hull", 1.0), ("latent", 2.0)):
            name = f"Colored MNIST {CELLS[target]}, 24,000 × 128, {family}"
            yield Bar(name, family, most, lambda t=target: load_colours(t))
    for target, name in enumerate(("art_painting", "cartoon", "photo", "sketch")):
        yield Bar(f"PACS without {name}, latent", "latent", 3.0, lambda t=target: load_pacs(t))


def measure(work: Callable[[], object]) -> tuple[float, float]:
    """Return seconds on the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


def measure_bar(bar: Bar, repeats: int, processor: bool) -> list[str]:
    X, y, domain = bar.load()
    rows, model = StandardScaler().fit_transform(X), CROClassifier(bar.family)
    fits: list[list[float]] = []
    for _ in range(repeats):
        peer = LogisticRegression(max_iter=1000)
        alone = measure(lambda: model.fit(X, y, domain))[processor]
        free = measure(lambda p=peer: p.fit(rows, y))[processor]
        with threadpool_limits(1):
            single = measure(lambda p=peer: p.fit(rows, y))[processor]
        fits.append([alone, free, single])
    ours, free, single = np.median(fits, axis=0)
    ratio = ours / min(free, single)
    seconds = [f"{each:.2f}" for each in (ours, free, single)]
    verdict = "yes" if ratio <= bar.most else "no"
    return [bar.name, *seconds, f"{ratio:.2f}", f"≤ {bar.most:g}", verdict]


def fit_file() -> None:
    """Run ``regraft fit`` on 900 rows of a CSV file, in a process of its own."""
    X, y, domain = draw_small()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.csv"
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow([*(f"x{i}" for i in range(X.shape[1])), "label", "domain"])
            rows.writerows([*x, label, f"s{s}"] for x, label, s in zip(X, y, domain, strict=True))
        command = [sys.executable, "-m", "regraft", "fit", str(path), "--out", f"{folder}/out"]
        subprocess.run(command, check=True, capture_output=True)


def measure_small(repeats: int) -> list[list[str]]:
    X, y, domain = draw_small()
    rows = []
    for family in ("latent", "hull"):
        fits = [
            measure(lambda f=family: CROClassifier(f).fit(X, y, domain)) for _ in range(repeats)
        ]
        clock, processor = np.median(fits, axis=0)
        bar = "≤ 0.15" if family == "latent" else "–"
        rows.append([f"fit, 900 × 30, {family}", f"{clock:.2f}", f"{processor:.2f}", bar])
    runs = []
    for _ in range(repeats):
        before = os.times()
        clock, _ = measure(fit_file)
        after = os.times()
        used = after.children_user + after.children_system
        runs.append((clock, used - before.children_user - before.children_system))
    clock, processor = np.median(runs, axis=0)
    rows.append(
        ["`regraft fit` of a CSV file, 900 × 30", f"{clock:.2f}", f"{processor:.2f}", "≤ 4"]
    )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="bars whose name holds this")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--processor", action="store_true", help="compare processor time, on a busy machine"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    load = " / ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"{machine()}; load before the run {load}; medians of {options.repeats}; seed {SEED}.\n")
    if options.only in "900 × 30":
        header = ["small data", "seconds", "of the processor", "bar"]
        print(table(header, measure_small(options.repeats)), flush=True)
        print()
    bars = [bar for bar in list_bars() if options.only in bar.name]
    if bars:
        rows = [measure_bar(bar, options.repeats, options.processor) for bar in bars]
        peers = "peer, its own threads, s", "peer, one thread, s"
        header = ["whole default fit", "ours, s", *peers, "ratio to the faster", "bar", "met"]
        print(table(header, rows))


if __name__ == "__main__":
    main()
