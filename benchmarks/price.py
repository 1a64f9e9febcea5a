"""What the default head costs on data as they are: each domain left out, CRO against ERM.

python benchmarks/price.py [NAME ...]

Finished cells are kept in benchmarks/data/price.jsonl: delete the file to measure again.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
from banks import PLACES
from common import HERE, SHARED, measure_once, percent, table
from raw_tables import TABLES, read_raw_table

from regraft import CROClassifier, ERMClassifier
from regraft.data.labelled import LabelledTable
from regraft.encoders.known_datasets import read_known_dataset

RECORDS = HERE / "data" / "price.jsonl"
NAMES = (*PLACES, *TABLES)


@functools.lru_cache(maxsize=1)
def read(name: str) -> LabelledTable:
    if name in TABLES:
        return read_raw_table(name)
    tell = functools.partial(print, file=sys.stderr, flush=True)
    out = HERE / "data" / f"compare-{name}"
    return read_known_dataset(name, SHARED / PLACES[name], out, device="cpu", on_progress=tell)


def leave_out(data: LabelledTable, target: str) -> dict[str, Any]:
    """Accuracy of both heads in a domain that they were fitted without."""
    unseen = data.domain.astype(str) == target
    seen = data.X[~unseen], data.y[~unseen], data.domain[~unseen]
    erm, cro = (model.fit(*seen) for model in (ERMClassifier(), CROClassifier()))
    return {
        "rows": int(unseen.sum()),
        "ERM": float(erm.score(data.X[unseen], data.y[unseen])),
        "CRO": float(cro.score(data.X[unseen], data.y[unseen])),
        "is_erm": bool(np.allclose(erm.coef_, cro.coef_, rtol=1e-6, atol=1e-9)),
        "reason": cro.certificate_.reason,
    }


def measure(name: str) -> list[dict[str, Any]]:
    targets = np.unique(read(name).domain.astype(str)).tolist()
    cells = []
    for target in targets:
        args = {"data": name, "target": target}
        cells.append(measure_once(RECORDS, args, lambda t=target: leave_out(read(name), t)))
        print(cells[-1], file=sys.stderr, flush=True)
    return cells


def main() -> None:
    names = sys.argv[1:] or NAMES
    if unknown := [name for name in names if name not in NAMES]:
        raise SystemExit(f"there is no {unknown[0]!r}: choose among {', '.join(NAMES)}.")
    summary, each = [], []
    for name in names:
        cells = measure(name)
        gains = [cell["CRO"] - cell["ERM"] for cell in cells]
        means = [float(np.mean([cell[head] for cell in cells])) for head in ("ERM", "CRO")]
        summary.append(
            [
                name, *map(percent, means),
                f"{100 * np.mean(gains):+.1f}", f"{100 * min(gains):+.1f}",
                f"{sum(cell['is_erm'] for cell in cells)} of {len(cells)}",
            ]
        )  # fmt: skip
        each += [
            [
                name, cell["args"]["target"], f"{cell['rows']:,}", percent(cell["ERM"]),
                percent(cell["CRO"]), f"{100 * gain:+.1f}", cell["reason"] or "–",
            ]
            for cell, gain in zip(cells, gains, strict=True)
        ]  # fmt: skip
    print(
        "Accuracy (%) in the domain left out, heads at their defaults, average over the domains.\n"
    )
    header = ["data", "ERM", "CRO", "difference", "least difference", "head is ERM's"]
    print(table(header, summary))
    print("\nEvery domain left out.\n")
    header = ["data", "domain", "rows", "ERM", "CRO", "difference", "why the head is ERM's"]
    print(table(header, each))


if __name__ == "__main__":
    main()
