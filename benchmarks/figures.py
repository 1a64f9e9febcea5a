"""Every figure of the paper that there is data for.

    python benchmarks/figures.py [--runs DIR ...] [--out docs/figures]

DIR is a folder that `regraft reproduce` wrote to, or the folder of one sweep in it; a
readings.jsonl of benchmarks/readings.py in it counts too. The two schematics need no data. Each
figure is written as PNG, SVG and PDF; those left out are named with the command that makes their
data. The docs show cmnist_literal_ranks as cmnist_ranks.png: on the hull it is no measurement.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from readings import RANK_READING, rank_curves
from schematics import draw_causal_graph, draw_transplant, write_schematic

from regraft.bench.paper.benchmark import COLORED_MNIST, IMAGE_BENCHMARKS
from regraft.bench.paper.experiment import Plan
from regraft.bench.paper.figures import draw_ranks, sweep_figures
from regraft.support.pictures import write_figure
from regraft.support.records import Records

BENCHMARKS = {"cmnist": COLORED_MNIST, **IMAGE_BENCHMARKS}
# What differs between the runs of one sweep.
VARIED = {"test_envs", "hparams_seed", "trial_seed", "seed", "data_seed", "hparams_digest"}
COLORED = "regraft reproduce cmnist --device cuda"
NEEDS_DATA = {
    "cmnist_checkpoints": COLORED,
    "cmnist_ranks": COLORED,
    "cmnist_rounds": COLORED,
    "cmnist_literal_ranks": f'python benchmarks/readings.py --readings "{RANK_READING}"',
    "pacs_checkpoints": "regraft reproduce pacs --data PACS --device cuda",
}


def figures_of(folder: Path) -> dict[str, Any]:
    """The figures of all sweeps and readings in ``folder``, by their names."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder: pass one that regraft reproduce made.")
    figures: dict[str, Any] = {}
    for sweep in sorted({path.parent for path in folder.rglob("records.jsonl")}):
        figures = merged(figures, figures_of_sweep(sweep), sweep)
    for path in sorted(folder.rglob("readings.jsonl")):
        curves = rank_curves(Records(path).read())
        if all(curves.values()):
            drawn = {"cmnist_literal_ranks": draw_ranks({RANK_READING: curves})}
            figures = merged(figures, drawn, path)
    if not figures:
        raise ValueError(f"{folder} holds no finished runs: pass one that regraft reproduce made.")
    return figures


def figures_of_sweep(folder: Path) -> dict[str, Any]:
    """The figures of the one sweep in ``folder``: of the larger one if devices share it."""
    records = Records(folder / "records.jsonl").read()
    (kind, count), *others = Counter(map(sweep_of, records)).most_common() or [(None, 0)]
    if kind is None:
        return {}
    if others:
        print(f"{folder}: {len(records) - count} runs of other sweeps are left out")
    args = dict(kind)
    name = next(name for name, known in BENCHMARKS.items() if known.name == args["dataset"])
    plan = Plan(
        benchmark=BENCHMARKS[name], preset=args["preset"], cells=(), trials=0, configs=0,
        family=args["family"], surrogate=args["surrogate"], device=args["device"], out=folder,
    )  # fmt: skip
    curves: dict[int, list[tuple[int, float]]] = {}
    for record in Records(folder / "ranks.jsonl").read():
        rank = record["args"].pop("cro_rank")
        if sweep_of(record) == kind:
            (env,) = record["args"]["test_envs"]
            curves.setdefault(env, []).append((rank, 1 - record[f"env{env}_in_acc"]))
    own = [record for record in records if sweep_of(record) == kind]
    drawn = sweep_figures(plan.benchmark, own, {plan.label: curves})
    return {f"{name}_{figure}": drawn[figure] for figure in drawn}


def sweep_of(record: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """What all runs of the record's sweep share."""
    return tuple(sorted(pair for pair in record["args"].items() if pair[0] not in VARIED))


def merged(figures: dict[str, Any], more: dict[str, Any], source: Path) -> dict[str, Any]:
    twice = figures.keys() & more.keys()
    if twice:
        raise ValueError(f"{source} gives {min(twice)} a second time: pass one sweep of each kind.")
    return figures | more


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=Path, nargs="*", default=[], help="folders with records")
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    args = parser.parse_args()
    schematics = {"causal_graph": draw_causal_graph(), "transplant": draw_transplant()}
    figures: dict[str, Any] = {}
    try:
        for folder in args.runs:
            figures = merged(figures, figures_of(folder), folder)
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from None
    for drawn, write in ((schematics, write_schematic), (figures, write_figure)):
        for name, figure in drawn.items():
            print(*write(figure, args.out / name), sep="\n")
    for name, command in NEEDS_DATA.items():
        if name not in figures:
            print(f"left out: {name}, for which run {command}")


if __name__ == "__main__":
    main()
