"""What the benchmarks share: the data, the ceiling probe, the machine, Markdown."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from regraft.support.records import Records

HERE = Path(__file__).parent
SHARED = Path(os.environ.get("REGRAFT_DATA", HERE.parent.parent / "shared" / "data"))
CELLS = ("+90%", "+80%", "-90%")


@dataclass(frozen=True)
class Cell:
    """One leave-one-environment-out cell of Colored MNIST features."""

    X: NDArray[np.float64]
    y: NDArray[np.uint8]
    domain: NDArray[np.uint8]
    colour: NDArray[np.uint8]  # for the probe alone
    X_target: NDArray[np.float64]
    y_target: NDArray[np.uint8]


def load_cell(target: int, rows: int, seed: int = 0) -> Cell:
    """The first ``rows`` training rows of each source and the whole target environment."""
    path = HERE / "data" / f"cmnist_{target}_seed{seed}.safetensors"
    if not path.exists():
        raise SystemExit(f"{path} is missing: make it with benchmarks/make_banks.py.")
    bank = load_file(path)
    train = bank["held_out"] == 0
    keep = np.concatenate(
        [np.flatnonzero(train & (bank["env"] == e))[:rows] for e in range(3) if e != target]
    )
    unseen = bank["env"] == target
    X = bank["X"].astype(np.float64)
    return Cell(
        X[keep], bank["y"][keep], bank["env"][keep], bank["colour"][keep],
        X[unseen], bank["y"][unseen],
    )  # fmt: skip


def probe_accuracy(cell: Cell) -> float:
    """The best target accuracy, over its C, of a logistic probe that is told the colour.

    Its rows are weighted so that colour and label are independent. C is chosen on the target:
    this is a ceiling, so it gets the benefit of every doubt.
    """
    group = 2 * cell.colour.astype(int) + cell.y
    weight = (1 / np.bincount(group))[group]
    scores = []
    for C in (0.01, 0.1, 1.0, 10.0, 100.0):
        probe = make_pipeline(StandardScaler(), LogisticRegression(C=C, solver="newton-cholesky"))
        probe.fit(cell.X, cell.y, logisticregression__sample_weight=weight / weight.mean())
        scores.append(probe.score(cell.X_target, cell.y_target))
    return float(max(scores))


def measure_once(
    path: Path, args: Mapping[str, Any], measure: Callable[[], Mapping[str, Any]]
) -> dict[str, Any]:
    """The record of this run in the file ``path``, measured and appended if there is none yet."""
    records = Records(path)
    for record in records.read():
        if record["args"] == args:
            return record
    record = {"args": dict(args), **measure()}
    records.append(record)
    return record


def machine() -> str:
    """The machine in words."""
    name = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            name = line.split(":", 1)[1].strip()
            break
    return (
        f"{os.cpu_count()} cores ({name}), Python {platform.python_version()}, "
        f"torch {torch.__version__}, numpy {np.__version__}"
    )


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def percent(value: float) -> str:
    return f"{100 * value:.1f}"
