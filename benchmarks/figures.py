"""Every figure of the paper that there is data for.

    python benchmarks/figures.py [--runs DIR ...] [--out docs/figures]

DIR is a folder that `regraft reproduce` wrote to, or the folder of one sweep in it; a
readings.jsonl of benchmarks/readings.py in it counts too. The two schematics need no data. Each
figure is written as PNG, SVG and PDF; those left out are named with the command that makes their
data. The docs show cmnist_literal_ranks as cmnist_ranks.png: on the hull it is no measurement.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from schematics import draw_causal_graph, draw_transplant, write_schematic

from regraft.bench.paper.benchmark import COLORED_MNIST, IMAGE_BENCHMARKS
from regraft.bench.paper.experiment import rank_curves
from regraft.bench.paper.figures import RankCurves, draw_ranks, sweep_figures
from regraft.bench.paper.trained_features import CRO
from regraft.bench.protocol.run_folder import RESULTS, RunFolder
from regraft.support.pictures import write_figure
from regraft.support.records import Records

BENCHMARKS = {"cmnist": COLORED_MNIST, **IMAGE_BENCHMARKS}
RANK_READING = "free, relabelled, over r"
COLORED = "regraft reproduce cmnist --device cuda"
NEEDS_DATA = {
    "cmnist_checkpoints": COLORED,
    "cmnist_ranks": COLORED,
    "cmnist_rounds": COLORED,
    "cmnist_literal_ranks": f'python benchmarks/readings.py --readings "{RANK_READING}"',
    "pacs_checkpoints": "regraft reproduce pacs --data PACS --device cuda",
}


def figures_of(folder: Path) -> dict[str, Any]:
    """Draw all sweeps and readings in ``folder``; return the figures by their names."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder: pass one that regraft reproduce made.")
    figures: dict[str, Any] = {}
    for sweep in sorted(path.parent for path in folder.rglob("reproduction.json")):
        figures = merged(figures, figures_of_sweep(sweep), sweep)
    for path in sorted(folder.rglob("readings.jsonl")):
        curves = reading_curves(Records(path).read())
        if all(curves.values()):
            drawn = {"cmnist_literal_ranks": draw_ranks({RANK_READING: curves})}
            figures = merged(figures, drawn, path)
    if not figures:
        raise ValueError(f"{folder} holds no finished runs: pass one that regraft reproduce made.")
    return figures


def figures_of_sweep(folder: Path) -> dict[str, Any]:
    """Draw the one sweep in ``folder``: the larger one if devices share it."""
    document = json.loads((folder / "reproduction.json").read_text(encoding="utf-8"))
    name, benchmark = next(
        (name, known) for name, known in BENCHMARKS.items() if known.title == document["benchmark"]
    )
    places = [path for path in folder.iterdir() if path.is_dir()]
    games = {path.name: records_of(path) for path in places if not path.name.endswith("-ranks")}
    place = max(games, key=lambda key: len(games[key]))
    others = sum(map(len, games.values())) - len(games[place])
    if others:
        print(f"{folder}: {others} runs of other sweeps are left out")
    curves = rank_curves(records_of(folder / f"{place}-ranks"))
    drawn = sweep_figures(benchmark, games[place], {document["label"]: curves})
    return {f"{name}_{figure}": drawn[figure] for figure in drawn}


def records_of(folder: Path) -> list[dict[str, Any]]:
    """Read the last record of every game of CRO in ``folder``."""
    runs = [RunFolder(path.parent, "").records() for path in sorted(folder.rglob(RESULTS))]
    return [run[-1] for run in runs if run and run[-1]["args"]["algorithm"] == CRO]


def reading_curves(records: Iterable[Mapping[str, Any]]) -> RankCurves:
    """Return pairs of a transplant dimension and the error rate, sorted, by environment."""
    ranked = [r for r in records if "cro_rank" in r["args"]]
    return {
        env: sorted(
            (r["args"]["cro_rank"], 1 - r["target"]) for r in ranked if r["args"]["test_env"] == env
        )
        for env in range(len(COLORED_MNIST.environments))
    }


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
