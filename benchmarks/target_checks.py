"""Is a new domain placed where it lies? Targets whose truth is known.

python benchmarks/target_checks.py [placing] [closure] [speed] [--repetitions 100] [--mnist DIR]

Placing: cross-entropy beside the Bayes conditional, and how often the intervals of the shares and
the certificates of adapted heads hold. Closure: how often a target that is a mixture is rejected,
and one that is not. With DIR, which holds MNIST's four idx files, a network is trained for noisy
images and for digits of another font. Speed: seconds for 100,000 rows. Finished repetitions are
kept in benchmarks/data/target: delete a file to measure again.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from abduction import Mixture, draw_mixture, rate
from common import HERE, machine, measure_once, table
from confounded import choose
from intervals import mixture_conditional
from numpy.random import Generator
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from speed import median_seconds
from target_rows import draw_groups, read_demo, read_digits, read_pacs

from regraft import AdaptedClassifier, CROClassifier, adapt, load_demo, place
from regraft.estimators.placing import LEVEL

FOLDER = HERE / "data" / "target"
ROWS = (30, 100, 300, 3000)
MOST_LABELS = 300
SHARES = (0.9, 0.5, 0.1)
SOURCE_ROWS, FRESH_ROWS = 2_000, 20_000
CLOSURE_ROWS = (30, 300, 1000)
AGREEING = (0.9, 0.5, 0.1)  # shares of the rows whose colour agrees with the label
DEMO_ROWS = {0.9: 300, 0.5: 300}  # at most; the bank's target has about 300 rows that agree
FEATURE_NOISE = 0.5
PACS_DRAWS = 10
MANY_ROWS = 100_000
PROBLEMS = ("seen", "hidden")
INTRODUCTION = f"""Two groups in sources of {SOURCE_ROWS:,} rows each. *Seen*: the groups lie 3 to
4 deviations apart in x. *Hidden*: random problems of `abduction.py`, in which no feature is the
group. Target rows have a share .9, .5 or .1 of one group in turn. Nats are means over the
repetitions of the cross-entropy on {FRESH_ROWS:,} fresh target rows, without any label; *worst* is
the largest excess over Bayes.
"""


def draw_problem(kind: str, random: Generator) -> tuple[Any, tuple[Any, ...], NDArray[Any]]:
    """A problem, its sources' rows, and the share of group 1 in each source."""
    if kind == "seen":
        groups = draw_groups(random)
        return groups, groups.draw_sources(SOURCE_ROWS, random), groups.sources
    mixture, _, _ = draw_mixture(random)
    data = mixture.draw_sources(SOURCE_ROWS, random)
    return mixture, (data.X, data.y, data.domain), mixture.prior


def bayes(problem: Any, X: NDArray[Any], share: float) -> NDArray[Any]:
    if isinstance(problem, Mixture):
        return np.log(mixture_conditional(problem, X, share))
    log_p: NDArray[Any] = problem.log_p(X, share)
    return log_p


def place_domains(kind: str, seed: int) -> dict[str, Any]:
    """One problem: a target of each size, with and without labels."""
    random = np.random.default_rng(seed)
    problem, sources, prior = draw_problem(kind, random)
    model = CROClassifier().fit(*sources)
    found = np.array(model.certificate_.abduction["shares"])  # (K, G)
    if found.shape[1] != 2:
        return {"found": False}
    group = int(np.argmax([found[:, u] @ (prior - prior.mean()) for u in (0, 1)]))
    cells = []
    for number, rows in enumerate(ROWS):
        share = SHARES[(seed + number) % len(SHARES)]
        X, y = problem.draw(rows, share, random)
        fresh, labels = problem.draw(FRESH_ROWS, share, random)
        placed = place(model, X)

        def risk(log_p: NDArray[Any], labels: NDArray[Any] = labels) -> float:
            return float(-log_p[np.arange(len(labels)), labels].mean())

        adapted = adapt(model, X)
        labelled = adapt(model, X, y) if rows <= MOST_LABELS else None
        cells.append(
            {
                "rows": rows,
                "share": share,
                "interval": [placed.lower[group], placed.upper[group]],
                "p_value": placed.p_value,
                "bayes": risk(bayes(problem, fresh, share)),
                "before": risk(np.log(model.predict_proba(fresh))),
                "after": risk(np.log(adapted.predict_proba(fresh))),
                "unlabelled": bound(adapted, "mixture", fresh, labels),
                "labelled": bound(labelled, "labelled", fresh, labels),
                "labelled, mixture": bound(labelled, "mixture", fresh, labels),
            }
        )
    return {"found": True, "cells": cells}


def bound(
    model: AdaptedClassifier | None, name: str, X: NDArray[Any], y: NDArray[Any]
) -> list[float] | None:
    """The certified accuracy and the true one; None without a certificate of this kind."""
    evidence = model and getattr(model.certificate_, name)
    return [evidence.accuracy_bound, float(model.score(X, y))] if model and evidence else None


def run_placing(repetitions: int, _: Path | None) -> None:
    print(INTRODUCTION)
    nats, held = [], []
    for kind in PROBLEMS:
        records = []
        for seed in range(repetitions):
            args = {"problem": kind, "seed": seed}
            measure = functools.partial(place_domains, kind, seed)
            records.append(measure_once(FOLDER / "placing.jsonl", args, measure))
            tell(kind, seed, repetitions)
        for rows in ROWS:
            cells = [
                cell
                for record in records
                if record["found"]
                for cell in record["cells"]
                if cell["rows"] == rows
            ]
            risk = {key: np.array([c[key] for c in cells]) for key in ("bayes", "before", "after")}
            excess = risk["after"] - risk["bayes"]
            values = [f"{value.mean():.3f}" for value in risk.values()]
            worst = f"{excess.mean():.3f}", f"{excess.max():.3f}"
            nats.append([kind, f"{rows:,}", *values, *worst])
            inside = [c["interval"][0] <= c["share"] <= c["interval"][1] for c in cells]
            width = np.mean([c["interval"][1] - c["interval"][0] for c in cells])
            alarms = [c["p_value"] <= LEVEL for c in cells]
            bounds = [
                rate([c[key][0] <= c[key][1] for c in cells if c[key]])
                for key in ("unlabelled", "labelled", "labelled, mixture")
            ]
            held.append([kind, f"{rows:,}", rate(inside), f"{width:.2f}", rate(alarms), *bounds])
    header = ["problem", "target rows", "Bayes", "no adaptation", "adapt", "adapt − Bayes", "worst"]
    print(table(header, nats))
    print(
        f"\n{repetitions} problems each: how often (%, with the exact 95 % interval) the interval "
        "of the share holds the true share, its mean width, how often closure is rejected "
        f"(level {LEVEL:.2f}), and how often the accuracy that is certified is at most the true "
        "one: without labels, by labels, and as a mixture with all rows labelled.\n"
    )
    header = ["share inside", "width", "closure rejected", "no labels", "by labels", "as a mixture"]
    print(table(["problem", "target rows", *header], held))


@dataclass(frozen=True)
class Target:
    """A target of which it is known whether it is a mixture of what the sources have."""

    name: str
    is_mixture: bool
    draw: Callable[[int, Generator], tuple[CROClassifier, NDArray[Any]]]
    most_rows: int = CLOSURE_ROWS[-1]
    most_draws: int = 1_000


def list_targets(mnist: Path | None) -> Iterator[Target]:
    """Every target; those made of images, which train a network first, only with ``mnist``."""

    def digits(
        folder: Path, name: str, n: int, random: Generator
    ) -> tuple[CROClassifier, NDArray[Any]]:
        model, bank = read_digits(folder)
        return model, bank[name][random.choice(len(bank[name]), n, replace=False)]

    def coloured(
        share: float, noise: float, n: int, random: Generator
    ) -> tuple[CROClassifier, NDArray[Any]]:
        model, X, agrees = read_demo()
        agree = int(random.binomial(n, share))
        parts = [
            random.choice(np.flatnonzero(agrees == value), count, replace=False)
            for value, count in ((True, agree), (False, n - agree))
        ]
        rows = X[random.permutation(np.concatenate(parts))]
        return model, rows + noise * X.std(axis=0) * random.standard_normal(rows.shape)

    def photos(n: int, random: Generator) -> tuple[CROClassifier, NDArray[Any]]:
        model, X = read_pacs()
        return model, X[random.choice(len(X), n, replace=False)]

    for share in AGREEING:
        name, draw = (
            f"colour agrees in {100 * share:.0f} %",
            functools.partial(coloured, share, 0.0),
        )
        yield Target(f"demo bank, {name}", True, draw, DEMO_ROWS.get(share, CLOSURE_ROWS[-1]))
    name = f"demo bank, {FEATURE_NOISE:g} deviations of noise in the features"
    yield Target(name, False, functools.partial(coloured, AGREEING[-1], FEATURE_NOISE))
    name = "PACS photo, sources art, cartoon and sketch"
    yield Target(name, False, photos, most_draws=PACS_DRAWS)
    if mnist is not None:
        for name, key in (("coloured digits with noise", "noisy"), ("another font", "printed")):
            yield Target(name, False, functools.partial(digits, mnist, key))


def run_closure(repetitions: int, mnist: Path | None) -> None:
    print(
        "How often closure is rejected (%, with the exact 95 % interval) at the level "
        f"{LEVEL:.2f}, by the number of target rows.\n"
    )
    lines = []
    for target in list_targets(mnist):
        line = [target.name, "mixture" if target.is_mixture else "no mixture"]
        draws = min(repetitions, target.most_draws)
        for rows in CLOSURE_ROWS:
            alarms = []
            for seed in range(draws if rows <= target.most_rows else 0):
                args = {"target": target.name, "rows": rows, "seed": seed}
                measure = functools.partial(test_closure, target.draw, rows, seed)
                record = measure_once(FOLDER / "closure.jsonl", args, measure)
                alarms.append(record["p_value"] <= LEVEL)
            tell(f"{target.name}, {rows} rows", draws - 1, draws)
            line.append(rate(alarms))
        lines.append([*line, draws])
    header = ["target", "truth", *(f"{rows:,} rows" for rows in CLOSURE_ROWS), "draws"]
    print(table(header, lines))


def test_closure(draw: Callable[..., Any], rows: int, seed: int) -> dict[str, Any]:
    model, X = draw(rows, np.random.default_rng(seed))
    found = place(model, X)
    return {"p_value": found.p_value, "gap": found.gap}


def tell(name: str, seed: int, repetitions: int) -> None:
    if (seed + 1) % 10 == 0 or seed + 1 == repetitions:
        print(f"{name}: {seed + 1} of {repetitions}", file=sys.stderr, flush=True)


def run_speed(_: int, __: Path | None) -> None:
    """Time `place` beside the prediction of the same rows by scikit-learn."""
    demo, random = load_demo("-90%"), np.random.default_rng(0)
    model = CROClassifier().fit(demo.X, demo.y, demo.sample_domain)
    peer = LogisticRegression(max_iter=1000).fit(demo.X, demo.y)
    rows = random.integers(len(demo.X_target), size=MANY_ROWS)
    X = demo.X_target[rows] + 1e-3 * random.standard_normal((MANY_ROWS, demo.X.shape[1]))
    works = {
        "place": lambda: place(model, X),
        "LogisticRegression.predict": lambda: peer.predict(X),
    }
    lines = [[name, f"{median_seconds(work):.2f}"] for name, work in works.items()]
    print(f"{MANY_ROWS:,} × {X.shape[1]} rows on {machine()}, median seconds.\n")
    print(table(["what", "seconds"], lines))


PARTS = {"placing": run_placing, "closure": run_closure, "speed": run_speed}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="placing, closure, speed; all if none"
    )
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--mnist", type=Path, help="folder of MNIST's idx files")
    options = parser.parse_args(arguments)
    for number, part in enumerate(choose(",".join(options.parts or PARTS), PARTS)):
        print("\n" * bool(number), end="")
        PARTS[part](options.repetitions, options.mnist)


if __name__ == "__main__":
    main()
