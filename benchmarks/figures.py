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
from pathlib import Path
from typing import Any

from readings import RANK_READING
from readings import rank_curves as reading_curves
from schematics import draw_causal_graph, draw_transplant, write_schematic

from regraft.bench.paper.benchmark import COLORED_MNIST, IMAGE_BENCHMARKS
from regraft.bench.paper.experiment import RANKS_OF, rank_curves
from regraft.bench.paper.figures import draw_ranks, sweep_figures
from regraft.bench.paper.trained_features import CRO
from regraft.bench.protocol.run_folder import RunFolder
from regraft.support.pictures import write_figure
from regraft.support.records import Records

BENCHMARKS = {"cmnist": COLORED_MNIST, **IMAGE_BENCHMARKS}
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
    for sweep in sorted({path.parent for path in folder.rglob("reproduction.json")}):
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
    """The figures of the one sweep in ``folder``: of the larger one if devices share it."""
    by_device = {path.name: read_runs(path) for path in sorted(folder.iterdir()) if path.is_dir()}
    games = {name: runs for name, runs in by_device.items() if not name.endswith(RANKS_OF)}
    device = max(games, key=lambda name: len(games[name]))
    left_out = sum(map(len, games.values())) - len(games[device])
    if left_out:
        print(f"{folder}: {left_out} runs of other sweeps are left out")
    own = [record for record in games[device] if record["args"]["algorithm"] == CRO]
    dataset = own[0]["args"]["dataset"]
    name = next(name for name, known in BENCHMARKS.items() if known.name == dataset)
    label = json.loads((folder / "reproduction.json").read_text("utf-8"))["label"]
    curves = rank_curves(by_device.get(f"{device}{RANKS_OF}", []))
    drawn = sweep_figures(BENCHMARKS[name], own, {label: curves})
    return {f"{name}_{figure}": drawn[figure] for figure in drawn}


def read_runs(folder: Path) -> list[dict[str, Any]]:
    """The last records of all finished runs in ``folder``."""
    runs = [RunFolder(path.parent, path.parent.name) for path in sorted(folder.glob("*/done"))]
    return [run.records()[-1] for run in runs]


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
