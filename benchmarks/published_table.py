"""All of DomainBed's algorithms on Colored MNIST on one GPU, beside the published numbers.

    python benchmarks/published_table.py --data MNIST --out table [--device cuda]

One default configuration, trial 0, each of the three environments held out in turn: what
``regraft sweep`` does with these options, so a run that was stopped goes on. Then a table of test
accuracies by training-domain validation. DomainBed's numbers are of its authors' tables of 2020:
the best of 20 configurations by the same rule, means of 3 trials, of the 14 algorithms there were.
``!`` marks those that differ by more than 2 points.

docs/protocol.md has the table, and says why some cells differ.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from regraft.bench.paper.benchmark import published_rows
from regraft.bench.protocol.collection import Collection, collect
from regraft.cli.names import ALGORITHMS
from regraft.support.table import Number, Table

DATASET, RULE = "ColoredMNIST", "training-domain"
OURS = ("CRO", "CROLatent", "JTT", "EIIL", "XRM")
POINTS = 2.0  # beyond which a difference is marked


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    theirs = ",".join(name for name in ALGORITHMS if name not in OURS)
    parser.add_argument("--data", type=Path, help="Folder of MNIST's files.")
    parser.add_argument("--out", type=Path, default=Path("published-table"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--algorithms", default=theirs, help="Default: DomainBed's 34.")
    parser.add_argument("--together", type=int, default=15, help="Runs side by side on a GPU.")
    parser.add_argument("--steps", type=int, help="Default: 5001, as in DomainBed.")
    parser.add_argument("--compat", action="store_true", help="Keep DomainBed's known faults.")
    options = parser.parse_args()
    command = [
        *(sys.executable, "-m", "regraft", "sweep", "--datasets", DATASET),
        *("--algorithms", options.algorithms, "--n-trials", "1", "--n-hparams", "1"),
        *("--device", options.device, "--out", str(options.out)),
        *(["--data", str(options.data)] if options.data else []),
        *(["--steps", str(options.steps)] if options.steps else []),
        *(["--compat"] if options.compat else []),
        *(["--together", str(options.together)] if options.device != "cpu" else []),
    ]
    code = subprocess.run(command, check=False).returncode
    if not any(options.out.glob("*/results.jsonl")):
        raise SystemExit(code or f"{options.out} has no results.")
    print(compare(collect(options.out, [RULE])).markdown())
    raise SystemExit(code)  # of runs that failed, which the table lacks


def compare(collection: Collection) -> Table:
    """Return our numbers, and after each the published one where there is one."""
    names = collection.environments[DATASET]
    published = {
        row.algorithm: row.cells
        for row in published_rows("training_domain")
        if row.source == "DomainBed"
    }
    rows = []
    for algorithm, selection in collection.selections[RULE][DATASET].items():
        cells: list[Number | None] = []
        for env, name in enumerate(names):
            cell, theirs = selection.cells.get(env), published.get(algorithm, {}).get(name)
            cells += beside(100 * cell.mean if cell else None, theirs[0] if theirs else None)
        rows.append((algorithm, *cells))
    columns = [f"{name}{kind}" for name in names for kind in ("", " published")]
    return Table("", ("Algorithm", *columns), tuple(rows))


def beside(ours: float | None, published: float | None) -> list[Number | None]:
    """Return both numbers in percent; ours is marked where it is far from the published one."""
    if ours is None or published is None:
        return [None if each is None else Number(each) for each in (ours, published)]
    is_far = abs(ours - published) > POINTS
    return [Number(ours, mark=" !" if is_far else ""), Number(published)]


if __name__ == "__main__":
    main()
