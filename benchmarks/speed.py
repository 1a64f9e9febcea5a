"""Whole fits against one scikit-learn LogisticRegression in the same run; cost and memory by rows.

python benchmarks/speed.py [--largest 1000000] [--only heart]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
from common import CELLS, SHARED, load_cell, table
from raw_tables import read_raw_table
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from regraft import CROClassifier

REPEATS = 3
FEATURES = 128

# One size per process, so that the peak is this size's own. The data are the two sources' rows.
SCALING = """
import resource, sys, time
import numpy as np
from regraft import CROClassifier
n, d = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
y = rng.integers(2, size=n)
domain = np.arange(n) % 2
colour = y ^ (rng.random(n) < np.where(domain, 0.2, 0.1))
X = rng.standard_normal((n, d))
X[:, 0] += 0.5 * y
X[:, 1] += 2.0 * colour
small = slice(0, 2000)
CROClassifier().fit(X[small], y[small], domain[small])  # imports and thread pools
pages = int(open("/proc/self/statm").read().split()[1])
before = pages * resource.getpagesize() / 1024  # now, not at the peak of the imports
start = time.perf_counter()
CROClassifier().fit(X, y, domain)
seconds = time.perf_counter() - start
# Not ru_maxrss, in which a process starts with the peak of the one that started it.
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
after = int(status["VmHWM"].split()[0])
print(seconds, (after - before) * 1024 / X.nbytes)
"""


def median_seconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def compare(
    X: np.ndarray, y: np.ndarray, domain: np.ndarray, model: CROClassifier
) -> tuple[float, float]:
    """Median seconds of the whole fit and of the peer on the same standardized pooled rows."""
    standardized = StandardScaler().fit_transform(X)
    # First ours: threads that the peer leaves behind go on spinning for a while.
    ours = median_seconds(lambda: model.fit(X, y, domain))
    return ours, median_seconds(lambda: LogisticRegression(max_iter=1000).fit(standardized, y))


def list_problems() -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Name, features, labels and domains."""
    for target in (2, 0, 1):
        cell = load_cell(target, 12_000)
        yield f"Colored MNIST {CELLS[target]}", cell.X, cell.y, cell.domain
    data = np.load(SHARED / "pacs" / "efficientnet_lite0.npz", allow_pickle=False)
    X, y, domain = data["X"].astype(np.float64), data["y"], data["domain"]
    for target, name in enumerate(data["domains"]):
        keep = domain != target
        yield f"PACS without {name}", X[keep], y[keep], domain[keep]
    heart = read_raw_table("heart")
    yield "heart disease", heart.X, heart.y, heart.domain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=1_000_000)
    parser.add_argument("--only", default="", help="problems whose name holds this; no scaling")
    options = parser.parse_args()
    rows = []
    for name, X, y, domain in list_problems():
        if options.only not in name:
            continue
        ours, peer = compare(X, y, domain, CROClassifier())
        size = f"{len(X):,} × {X.shape[1]}, {len(np.unique(domain))} sources"
        rows.append([f"{name}, {size}", f"{ours:.2f}", f"{peer:.2f}", f"{ours / peer:.2f}"])
    print(
        "The whole default fit (cross-validation, abduction, game and certificate) against one "
        f"`LogisticRegression(max_iter=1000)`; medians of {REPEATS}.\n"
    )
    print(table(["data", "CRO fit, s", "peer, s", "ratio"], rows))
    if options.only:
        return
    sizes = [n for n in (10_000, 30_000, 100_000, 300_000, 1_000_000) if n <= options.largest]
    curve = []
    for n in sizes:
        command = [sys.executable, "-c", SCALING, str(n), str(FEATURES)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        seconds, memory = map(float, out.split())
        curve.append([f"{n:,}", f"{seconds:.2f}", f"{1e6 * seconds / n:.1f}", f"{1 + memory:.2f}"])
    print(f"\nCost by rows ({FEATURES} features, 2 sources, float64).\n")
    header = ["rows", "fit, s", "µs a row", "peak memory / data, data included"]
    print(table(header, curve))
    print("\nBelow 100,000 rows the fixed cost of the libraries outweighs the data.")


if __name__ == "__main__":
    main()
