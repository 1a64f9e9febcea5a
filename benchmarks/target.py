"""With the target at hand: accuracy over the number of target labels, and peers without labels.

python benchmarks/target.py [curves] [peers] [--problems demo,pacs,synthetic] [--draws 20]

Curves: `adapt` beside refitting on the labels alone and beside the model as it was. Peers: methods
of skada (pip install skada) with the same linear head, on the same rows. Finished cells are kept in
benchmarks/data/target: delete a file to measure it again.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import HERE, machine, measure_once, table
from confounded import RADIUS, choose, draw_synthetic, plant_style
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from regraft import CROClassifier, ERMClassifier, adapt, load_demo

FOLDER = HERE / "data" / "target"
LABELS = (0, 10, 30, 100, 300, 1000)
MOST_UNLABELLED = 1000
PEER_DRAWS = 5
WAYS = ("adapt", "adapt, unlabelled too", "adapt hull", "refit", "no adaptation")
BARS = {"demo": {10: 0.86, 30: 0.87, 100: 0.885}}
INTRODUCTION = f"""Accuracy (%) on target rows that nothing has seen, mean over the draws ± its
standard error. Labels are drawn at random; the column says how many. *Adapt* sees the labelled rows
alone, or {MOST_UNLABELLED:,} more rows without labels (PACS: 574) as well. *Adapt hull* adapts a
model of the hull family. *Refit* is ERM on the labels alone, without classes that have one row.
"""


@dataclass(frozen=True)
class Rows:
    """Sources and rows of a target, in random order."""

    X: NDArray[np.float64]
    y: NDArray[np.generic]
    domain: NDArray[np.generic]
    X_target: NDArray[np.float64]
    y_target: NDArray[np.int64]

    @property
    def n_unlabelled(self) -> int:
        return min(MOST_UNLABELLED, (len(self.y_target) - LABELS[-1]) // 2)

    @property
    def unlabelled(self) -> NDArray[np.float64]:
        return self.X_target[LABELS[-1] : LABELS[-1] + self.n_unlabelled]

    @property
    def test(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        first = LABELS[-1] + self.n_unlabelled
        return self.X_target[first:], self.y_target[first:]


@dataclass(frozen=True)
class Problem:
    """Sources and a target, by the number of the draw."""

    name: str
    draw: Callable[[int], Any]
    is_fixed: bool = False  # whether draws differ in the target rows alone
    most_draws: int = 20


@functools.cache
def read_demo(_: int = 0) -> Any:
    return load_demo("-90%")


def name_domains(draw: Any) -> NDArray[np.generic]:
    return np.asarray(draw.sample_domain if hasattr(draw, "sample_domain") else draw.domain)


PROBLEMS = {
    "demo": Problem("Colored MNIST -90%, demo bank", read_demo, is_fixed=True),
    "pacs": Problem(
        "PACS, animal × style, .9/.7", functools.partial(plant_style, (0.9, 0.7)), most_draws=5
    ),
    "synthetic": Problem("synthetic, 5 classes, .9/.8/.7", draw_synthetic, most_draws=10),
}


@functools.lru_cache(maxsize=1)
def load(key: str, seed: int) -> Rows:
    """One draw of a problem; the first 10 target rows hold two rows of two classes or more."""
    problem = PROBLEMS[key]
    draw = problem.draw(seed)
    random = np.random.default_rng(seed)
    labels = np.asarray(draw.y_target, dtype=np.int64)
    order = random.permutation(len(labels))
    while (np.bincount(labels[order[: LABELS[1]]]) >= 2).sum() < 2:
        order = random.permutation(len(labels))
    return Rows(draw.X, draw.y, name_domains(draw), draw.X_target[order], labels[order])


@functools.lru_cache(maxsize=2)
def fit(key: str, seed: int, family: str) -> CROClassifier:
    rows = load(key, seed)
    model = CROClassifier() if family == "latent" else CROClassifier("hull", radius=RADIUS)
    return model.fit(rows.X, rows.y, rows.domain)


def measure_labels(key: str, seed: int, n: int) -> dict[str, Any]:
    """Accuracy with so many labels, each way."""
    rows = load(key, seed)
    X, y = rows.X_target[:n], rows.y_target[:n]
    fitted = functools.partial(fit, key, 0 if PROBLEMS[key].is_fixed else seed)
    more = np.concatenate([X, rows.unlabelled])
    some = np.concatenate([y.astype(float), np.full(rows.n_unlabelled, np.nan)])
    made: dict[str, Any] = {
        "adapt, unlabelled too": adapt(fitted("latent"), more, some),
        "no adaptation": fitted("latent"),
    }
    if n:
        often = (np.bincount(y) >= 2)[y]
        made["adapt"] = adapt(fitted("latent"), X, y)
        made["adapt hull"] = adapt(fitted("hull"), X, y)
        made["refit"] = ERMClassifier().fit(X[often], y[often])
    kinds = {way: model.certificate_.kind for way, model in made.items() if way.startswith("adapt")}
    return {"accuracy": {way: m.score(*rows.test) for way, m in made.items()}, "kind": kinds}


def run_curves(keys: Sequence[str], first: int, draws: int) -> None:
    print(INTRODUCTION)
    for key in keys:
        problem = PROBLEMS[key]
        found: dict[int, list[dict[str, Any]]] = {n: [] for n in LABELS}
        n_draws = min(draws, problem.most_draws)
        for seed in range(first, first + n_draws):
            for n in LABELS:
                args = {"problem": key, "draw": seed, "labels": n}
                measure = functools.partial(measure_labels, key, seed, n)
                found[n].append(measure_once(FOLDER / "curves.jsonl", args, measure))
            print(f"{problem.name}: draw {seed}", file=sys.stderr, flush=True)
        print(f"{problem.name}, {n_draws} draws from {first} on:\n")
        print(show_curves(found, BARS.get(key, {})), "\n")


def show_curves(found: dict[int, list[dict[str, Any]]], bars: dict[int, float]) -> str:
    """One line a number of labels, with whether `adapt` is as good as the others."""
    lines = []
    for n, records in found.items():
        values = {
            way: np.array([record["accuracy"][way] for record in records])
            for way in WAYS
            if way in records[0]["accuracy"]
        }
        best = "adapt" if n else "adapt, unlabelled too"
        gaps = [values[best] - values[way] for way in ("refit", "no adaptation") if way in values]
        worst = min(gaps, key=np.mean)
        error = float(worst.std(ddof=1)) / len(worst) ** 0.5 if len(worst) > 1 else float("nan")
        verdict = f"{100 * worst.mean():+.1f} ± {100 * error:.1f}"
        verdict += " (missed)" if worst.mean() < -error else ""
        if n in bars:
            at_least = values[best].mean() >= bars[n]
            verdict += f"; bar {100 * bars[n]:g} {'met' if at_least else 'missed'}"
        lines.append([f"{n:,}", *(mean(values.get(way)) for way in WAYS), verdict])
    return table(["labels", *WAYS, "adapt less the better of the last two"], lines)


def mean(values: NDArray[np.float64] | None) -> str:
    if values is None:
        return "–"
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{100 * values.mean():.1f} ± {100 * error:.1f}"


def list_peers() -> dict[str, Callable[[], Any]]:
    """Methods of skada before the same logistic regression.

    Reweighting by kernels over all pairs of rows (KMM, kernel densities) takes a minute or more.
    """
    try:
        import skada
    except ImportError:
        raise SystemExit("the peers need skada: install it with pip install skada.") from None

    def head() -> LogisticRegression:
        return LogisticRegression(max_iter=1000)

    weighted = head().set_fit_request(sample_weight=True)
    return {
        "skada, no adaptation": lambda: skada.make_da_pipeline(StandardScaler(), head()),
        "skada DiscriminatorReweight": lambda: skada.make_da_pipeline(
            StandardScaler(), skada.DiscriminatorReweightAdapter(), weighted
        ),
        "skada GaussianReweight": lambda: skada.make_da_pipeline(
            StandardScaler(), skada.GaussianReweightAdapter(), weighted
        ),
        "skada NearestNeighborReweight": lambda: skada.make_da_pipeline(
            StandardScaler(), skada.NearestNeighborReweightAdapter(), weighted
        ),
        "skada CORAL": lambda: skada.make_da_pipeline(
            StandardScaler(), skada.CORALAdapter(), head()
        ),
        "skada SubspaceAlignment": lambda: skada.make_da_pipeline(
            StandardScaler(), skada.SubspaceAlignmentAdapter(), head()
        ),
    }


def measure_peer(key: str, seed: int, name: str) -> dict[str, Any]:
    rows = load(key, seed)
    start = time.perf_counter()
    if name == "CROClassifier":
        model: Any = CROClassifier().fit(rows.X, rows.y, rows.domain)
    elif name == "CROClassifier, adapt":
        fitted = fit(key, 0 if PROBLEMS[key].is_fixed else seed, "latent")
        start = time.perf_counter()
        model = adapt(fitted, rows.unlabelled)
    elif name == "logistic regression":
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        model.fit(rows.X, rows.y)
    else:
        _, source = np.unique(rows.domain, return_inverse=True)
        model = list_peers()[name]()
        model.fit(
            np.concatenate([rows.X, rows.unlabelled]),
            np.concatenate([rows.y.astype(int), np.full(rows.n_unlabelled, -1)]),
            sample_domain=np.concatenate([1 + source, np.full(rows.n_unlabelled, -1)]),
        )
    seconds = time.perf_counter() - start
    X, y = rows.test
    return {"accuracy": float(np.mean(model.predict(X) == y)), "seconds": seconds}


def run_peers(keys: Sequence[str], draws: int) -> None:
    print(
        "No labels of the target, its unlabelled rows given to all but the first two: accuracy (%) "
        "on further rows, mean over the draws ± its standard error, and median seconds on "
        f"{machine()}. The seconds of `adapt` are those after the fit.\n"
    )
    lines = []
    names = ["logistic regression", "CROClassifier", "CROClassifier, adapt", *list_peers()]
    for name in names:
        line = [name]
        for key in keys:
            found = []
            for seed in range(min(draws, PEER_DRAWS)):
                args = {"problem": key, "draw": seed, "peer": name}
                measure = functools.partial(measure_peer, key, seed, name)
                found.append(measure_once(FOLDER / "peers.jsonl", args, measure))
            print(f"{name}, {key}", file=sys.stderr, flush=True)
            line.append(mean(np.array([each["accuracy"] for each in found])))
            line.append(f"{np.median([each['seconds'] for each in found]):.1f}")
        lines.append(line)
    header = [text for key in keys for text in (PROBLEMS[key].name, "seconds")]
    print(table(["method", *header], lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help="curves, peers; both if none")
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw of curves")
    options = parser.parse_args()
    keys = choose(options.problems, PROBLEMS)
    warnings.filterwarnings("ignore", message="X has more features")
    parts = choose(",".join(options.parts or ["curves", "peers"]), ["curves", "peers"])
    if "curves" in parts:
        run_curves(keys, options.first, options.draws)
    if "peers" in parts:
        run_peers([key for key in keys if key != "pacs"], options.draws)


if __name__ == "__main__":
    main()
