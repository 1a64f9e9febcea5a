"""Planted confounders: PACS styles, colours and synthetic ones; every head beside the told ones.

python benchmarks/confounded.py [--problems pacs,colour,synthetic] [--heads ERM,CRO] [--draws 5]

Finished cells are kept in benchmarks/data/confounded, one file a head: delete a file to measure
that head again.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from common import CELLS, HERE, SHARED, load_cell, measure_once, probe_accuracy, table
from numpy.typing import NDArray
from oracle import told_balanced, told_group_dro
from sklearn.metrics import roc_auc_score

from regraft import (
    CROClassifier,
    EIILClassifier,
    ERMClassifier,
    GroupDROClassifier,
    IRMClassifier,
    JTTClassifier,
    VRExClassifier,
    XRMClassifier,
    abduct,
    make_confounded_domains,
    plant_confounder,
)
from regraft.estimators.linear import LinearHead

FOLDER = HERE / "data" / "confounded"
PACS_STRENGTHS = ((0.9, 0.7), (0.95, 0.8, 0.65), (0.9, 0.8))
PACS_TARGET = 0.1
RADIUS = 8.0  # of the hull, nats
ANIMALS = ("dog", "elephant", "giraffe", "horse")
DRAWN = ("cartoon", "sketch")
COLOUR_ROWS = (1_200, 6_000, 12_000)
Measured = dict[str, dict[str, Any]]  # the record of each head in one draw
INTRODUCTION = f"""Accuracy (%) in the target, average over the draws. The sources' strengths are
P(factor = label); in PACS it is {PACS_TARGET:g} in the target. *Told* heads are given the factor.
The *ceiling* is told the colour and chooses its C on the target, or is fitted without confounding
(synthetic). *Factor found* is the area under the curve (%) of `abduct`'s groups against whether
factor and label agree.
"""
SYNTHETIC: dict[str, Any] = {"n_samples": 4_000, "n_classes": 5, "strengths": (0.9, 0.8, 0.7)}


@dataclass(frozen=True)
class Draw:
    """Sources whose factor predicts the label, and a target in which it misleads."""

    X: NDArray[np.float64]
    y: NDArray[np.generic]
    domain: NDArray[np.generic]
    factor: NDArray[np.generic]  # for the told heads and the measurement alone
    X_target: NDArray[np.float64]
    y_target: NDArray[np.generic]
    ceiling: Callable[[], float] | None = None  # target accuracy of a head that is not misled


@dataclass(frozen=True)
class Problem:
    """One row of the table."""

    name: str
    kind: str
    draw: Callable[[int], Draw]
    most_draws: int = 5


def plant_style(strengths: Sequence[float], seed: int) -> Draw:
    """PACS, animals or not, confounded with drawn or photographic style."""
    data = np.load(SHARED / "pacs" / "efficientnet_lite0.npz", allow_pickle=False)
    animal = np.isin(data["classes"], ANIMALS)[data["y"]].astype(int)
    drawn = np.isin(data["domains"], DRAWN)[data["domain"]].astype(int)
    X = data["X"].astype(np.float64)
    rows = plant_confounder(X, animal, drawn, strengths, PACS_TARGET, random_state=seed)
    return Draw(rows.X, rows.y, rows.sample_domain, rows.factor, rows.X_target, rows.y_target)


def load_colours(target: int, rows: int, seed: int) -> Draw:
    cell = load_cell(target, rows, seed)
    return Draw(
        cell.X, cell.y.astype(int), cell.domain, cell.colour.astype(int),
        cell.X_target, cell.y_target.astype(int), lambda: probe_accuracy(cell),
    )  # fmt: skip


def draw_synthetic(seed: int) -> Draw:
    data = make_confounded_domains(**SYNTHETIC, random_state=seed)
    free_strengths = (1 / SYNTHETIC["n_classes"],) * len(SYNTHETIC["strengths"])

    def ceiling() -> float:
        """The head of the same sources without confounding."""
        free = make_confounded_domains(
            **{**SYNTHETIC, "strengths": free_strengths}, random_state=seed
        )
        head = ERMClassifier().fit(free.X, free.y, free.sample_domain)
        return float(head.score(data.X_target, data.y_target))

    return Draw(
        data.X, data.y, data.sample_domain, data.confounder, data.X_target, data.y_target, ceiling
    )


def list_problems() -> Iterator[Problem]:
    for strengths in PACS_STRENGTHS:
        text = "/".join(f"{strength:g}".lstrip("0") for strength in strengths)
        draw = functools.partial(plant_style, strengths)
        yield Problem(f"PACS, animal × style, {text}", "pacs", draw)
    for rows, (target, cell) in product(COLOUR_ROWS, enumerate(CELLS)):
        name = f"Colored MNIST {cell}, {rows:,} rows a source"
        draw = functools.partial(load_colours, target, rows)
        yield Problem(name, "colour", draw, most_draws=1)
    yield Problem("synthetic, 5 classes, .9/.8/.7", "synthetic", draw_synthetic)


def fit_with(make: Callable[[], LinearHead]) -> Callable[[Draw], dict[str, Any]]:
    return lambda draw: score(make().fit(draw.X, draw.y, draw.domain), draw)


def fit_told(fit: Callable[..., LinearHead]) -> Callable[[Draw], dict[str, Any]]:
    return lambda draw: score(fit(draw.X, draw.y, draw.factor, draw.domain), draw)


def score(model: LinearHead, draw: Draw) -> dict[str, Any]:
    """Accuracy in the target, and on the rows fitted on, mean over the sources."""
    right = model.predict(draw.X) == draw.y
    sources = [right[draw.domain == name].mean() for name in np.unique(draw.domain)]
    return {
        "target": float(model.score(draw.X_target, draw.y_target)),
        "source": float(np.mean(sources)),
    }


def recover(draw: Draw) -> dict[str, Any]:
    """How well the groups found tell whether factor and label agree."""
    found = abduct(draw.X, draw.y, draw.domain)
    number = found.groups @ np.arange(found.n_groups)
    area = float(roc_auc_score(draw.factor == draw.y, number))
    return {
        "area": max(area, 1 - area),  # which group is called the first does not matter
        "n_groups": found.n_groups,
        "p_value": found.p_value,
        "gain": found.gain,
        "possible_gain": found.possible_gain,
    }


HEADS: dict[str, Callable[[Draw], dict[str, Any]]] = {
    "ERM": fit_with(ERMClassifier),
    "GroupDRO": fit_with(GroupDROClassifier),
    "V-REx": fit_with(VRExClassifier),
    "V-REx 1000": fit_with(lambda: VRExClassifier(1000.0)),
    "IRM": fit_with(IRMClassifier),
    "JTT": fit_with(JTTClassifier),
    "EIIL": fit_with(EIILClassifier),
    "XRM": fit_with(XRMClassifier),
    "CRO hull": fit_with(lambda: CROClassifier("hull", radius=RADIUS)),
    "CRO": fit_with(CROClassifier),
    "told balanced": fit_told(told_balanced),
    "told GroupDRO": fit_told(told_group_dro),
    "ceiling": lambda draw: {"target": draw.ceiling()} if draw.ceiling else {},
    "factor found": recover,
}


@functools.lru_cache(maxsize=1)
def load(problem: Problem, seed: int) -> Draw:
    return problem.draw(seed)


def measure(problem: Problem, seed: int, head: str) -> dict[str, Any]:
    """The record of a head in one draw, which is made only if the record is missing."""

    def run() -> dict[str, Any]:
        draw = load(problem, seed)
        start = time.perf_counter()
        result = {**HEADS[head](draw), "seconds": time.perf_counter() - start}
        values = ", ".join(f"{name} {value:.3f}" for name, value in result.items())
        print(f"{problem.name}, draw {seed}, {head}: {values}", file=sys.stderr, flush=True)
        return result

    args = {"problem": problem.name, "draw": seed}
    return measure_once(FOLDER / f"{head}.jsonl", args, run)


def show(heads: Sequence[str], rows: Mapping[str, Sequence[Measured]], *keys: str) -> str:
    """A table of averages (%) over the draws of each row, by the key that the heads have."""

    def cell(draws: Sequence[Measured], head: str) -> str:
        values = [draw[head][key] for draw in draws for key in keys if key in draw[head]]
        return f"{100 * np.mean(values):.1f}" if values else "–"

    body = {name: [cell(draws, head) for head in heads] for name, draws in rows.items()}
    shown = [i for i in range(len(heads)) if any(cells[i] != "–" for cells in body.values())]
    return table(
        ["problem", *(heads[i] for i in shown)],
        [[name, *(cells[i] for i in shown)] for name, cells in body.items()],
    )


def choose(text: str, known: Iterable[str]) -> list[str]:
    """The names in ``text``, in the order of ``known``."""
    wanted, names = text.split(","), list(known)
    if unknown := [name for name in wanted if name not in names]:
        raise SystemExit(f"there is no {unknown[0]!r}: choose among {', '.join(names)}.")
    return [name for name in names if name in wanted]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", default="pacs,colour,synthetic")
    parser.add_argument("--heads", default=",".join(HEADS))
    parser.add_argument("--draws", type=int, default=5)
    options = parser.parse_args()
    kinds = choose(options.problems, ("pacs", "colour", "synthetic"))
    heads = choose(options.heads, HEADS)
    draws = {
        problem.name: [
            {head: measure(problem, seed, head) for head in heads}
            for seed in range(min(options.draws, problem.most_draws))
        ]
        for problem in list_problems()
        if problem.kind in kinds
    }
    each = {
        f"{name}, draw {seed}": [draw]
        for name, every in draws.items()
        for seed, draw in enumerate(every)
    }
    print(INTRODUCTION)
    print(show(heads, draws, "target", "area"))
    print("\nEvery draw.\n")
    print(show(heads, each, "target", "area"))
    print("\nAccuracy on the rows fitted on, mean over the sources, average over the draws.\n")
    print(show(heads, draws, "source"))


if __name__ == "__main__":
    main()
