"""Colored MNIST features: the default head against the colour-aware probe, and what may vary.

python benchmarks/cmnist.py [--seeds 0 1]
"""

from __future__ import annotations

import argparse
from itertools import pairwise

from common import CELLS, Cell, load_cell, percent, probe_accuracy, table

from regraft import CROClassifier, ERMClassifier

ROWS = (6_000, 12_000)
RADIUS = 8.0  # nats, where a line names no other
RADII = (4.0, 8.0, 16.0, 32.0)
RIDGES = (1e-5, 1e-4, 1e-3, 1e-2)


def settings() -> dict[str, dict[str, object]]:
    """Every setting the bar names; two classes and two sources have rank 1 only."""
    hull: dict[str, dict[str, object]] = {"hull": {}}
    hull |= {f"hull, radius {radius:g}": {"radius": radius} for radius in RADII}
    hull |= {"hull, rank 1 (full)": {"rank": 1}}
    hull |= {f"hull, ridge {ridge:g}": {"ridge": ridge} for ridge in RIDGES}
    hull |= {"hull, regret": {"objective": "regret"}}
    far = {"family": "hull", "radius": RADIUS}
    return {"default": {}} | {name: far | each for name, each in hull.items()}


def measure(cell: Cell, params: dict[str, object]) -> tuple[float, int, float, bool]:
    """Target accuracy, rounds, largest gap, whether M_t never fell by more than the gaps."""
    model = CROClassifier(**params).fit(cell.X, cell.y, cell.domain)
    rounds = model.rounds_
    monotone = all(b.value >= a.value - a.gap - 1e-9 for a, b in pairwise(rounds))
    accuracy = model.score(cell.X_target, cell.y_target)
    return accuracy, len(rounds), max((r.gap for r in rounds), default=0.0), monotone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1], help="of the banks")
    for seed in parser.parse_args().seeds:
        report(seed)


def report(seed: int) -> None:
    columns = [(target, rows) for target in (2, 0, 1) for rows in ROWS]
    cells = {column: load_cell(*column, seed) for column in columns}
    probes = {column: probe_accuracy(cell) for column, cell in cells.items()}
    erm = {
        column: ERMClassifier().fit(c.X, c.y, c.domain).score(c.X_target, c.y_target)
        for column, c in cells.items()
    }
    results = {
        name: {column: measure(cell, params) for column, cell in cells.items()}
        for name, params in settings().items()
    }
    print(f"Banks of seed {seed}: accuracy (%) on the whole target, by cell and rows a source.\n")
    rows = [["ERM", *(percent(erm[c]) for c in columns)]]
    rows += [["probe told the colour", *(percent(probes[c]) for c in columns)]]
    rows += [[f"CRO, {name}", *(percent(r[c][0]) for c in columns)] for name, r in results.items()]
    print(table(["head", *(f"{CELLS[t]}, {n:,}" for t, n in columns)], rows))
    every = [(name, c, *r[c]) for name, r in results.items() for c in columns]
    name, column, *_ = min(every, key=lambda e: e[2] - probes[e[1]])
    worst = min(e[2] - probes[e[1]] for e in every)
    print(
        f"\nFurthest below the probe: {100 * worst:+.1f} points ({name}, {CELLS[column[0]]}, "
        f"{column[1]:,} rows). Rounds: at most {max(e[3] for e in every)}. Duality gap: at most "
        f"{max(e[4] for e in every):.1e}. M_t non-decreasing within the gap: "
        f"{'all' if all(e[5] for e in every) else 'NOT all'} {len(every)} runs.\n"
    )


if __name__ == "__main__":
    main()
