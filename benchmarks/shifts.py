"""How the domains of known data differ: diversity shift, correlation shift, and their disagreement.

python benchmarks/shifts.py [NAME ...]
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

import numpy as np
import torch
from common import HERE, SHARED, load_cell, table
from numpy.typing import NDArray

from regraft import make_confounded_domains
from regraft.core.domains import check_domains
from regraft.encoders.known_datasets import read_known_dataset
from regraft.premises.factorization import group_rows
from regraft.premises.heterogeneity import check_heterogeneity
from regraft.premises.randomization import DRAWS
from regraft.premises.shifts import measure_shifts

PLACES = {"office-caltech10": "office_caltech10_surf", "amazon": "amazon_reviews", "pacs": "pacs"}
Rows = tuple[NDArray[np.floating], NDArray[np.generic], NDArray[np.generic]]


def from_bank(name: str) -> Rows:
    tell = functools.partial(print, file=sys.stderr, flush=True)
    out = HERE / "data" / f"compare-{name}"
    bank = read_known_dataset(name, SHARED / PLACES[name], out, device="cpu", on_progress=tell)
    return bank.X, bank.y, bank.domain


def from_cmnist() -> Rows:
    cell = load_cell(2, 6_000)
    target = np.full(len(cell.y_target), 2)
    return (
        np.concatenate([cell.X, cell.X_target]),
        np.concatenate([cell.y, cell.y_target]),
        np.concatenate([cell.domain, target]),
    )


def from_generator(strengths: tuple[float, ...]) -> Rows:
    data = make_confounded_domains(n_classes=5, strengths=strengths, random_state=0)
    return data.X, data.y, data.sample_domain


DATA: dict[str, Callable[[], Rows]] = {
    "Colored MNIST features, +90, +80 and −90 %": from_cmnist,
    "make_confounded_domains, .9/.8/.7": lambda: from_generator((0.9, 0.8, 0.7)),
    "make_confounded_domains, no confounding": lambda: from_generator((0.2, 0.2, 0.2)),
    **{name: functools.partial(from_bank, name) for name in PLACES},
}


def measure(name: str) -> list[str]:
    domains = check_domains(*DATA[name]())
    shifts = measure_shifts(domains)
    rows = group_rows(domains, torch.zeros_like(domains.y), 1)
    test = check_heterogeneity(rows, draws=DRAWS)
    return [
        name,
        f"{len(domains.y):,} × {domains.X.shape[1]}",
        f"{shifts.diversity:.2f}",
        f"{shifts.correlation:.2f}",
        f"{test.p_value:.3f}",
        f"{test.effective_rows:,.0f}",
    ]


def main() -> None:
    names = [name for name in DATA if not sys.argv[1:] or name in sys.argv[1:]]
    columns = ["data", "rows × features", "diversity", "correlation", "p: sources agree"]
    print("Averages over pairs of domains; the last column counts rows that could be exchanged.\n")
    print(table([*columns, "effective rows"], [measure(name) for name in names]))


if __name__ == "__main__":
    main()
