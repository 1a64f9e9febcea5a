"""Leave-one-domain-out for all heads on the known datasets; finished cells are kept.

python benchmarks/banks.py [NAME ...]
"""

from __future__ import annotations

import functools
import sys

from common import HERE, SHARED

from regraft.encoders.known_datasets import read_known_dataset
from regraft.estimators.comparison import compare
from regraft.estimators.comparison_tables import markdown

PLACES = {"amazon": "amazon_reviews", "office-caltech10": "office_caltech10_surf", "pacs": "pacs"}
RADII = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


def main() -> None:
    tell = functools.partial(print, file=sys.stderr, flush=True)
    for name in sys.argv[1:] or PLACES:
        out = HERE / "data" / f"compare-{name}"
        table = read_known_dataset(name, SHARED / PLACES[name], out, device="cpu", on_progress=tell)
        comparison = compare(
            table.X,
            table.y,
            table.domain,
            radii=RADII,
            records=out / "cells.jsonl",
            on_progress=tell,
        )
        n, d = table.X.shape
        print(f"### {name}\n\n{n} rows of {d} features.\n")
        print(markdown(comparison))


if __name__ == "__main__":
    main()
