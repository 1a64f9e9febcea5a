"""``regraft drift`` on a long stream: memory, time, and alarms where the stream leaves the mixture.

python benchmarks/drift.py [--rows 1000000,10000000] [--batch 10000] [--folder FOLDER]

Makes a Parquet file of each length block by block, and runs the command on it in a process of its
own, whose peak is its resident memory. The shares of two groups move over the stream like a sine;
from 50 % to 55 % of it, one feature has an offset that no source has. The file is deleted after its
run. Writes benchmarks/results/drift.json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
from common import HERE, machine, table
from numpy.typing import NDArray

from regraft import CROClassifier, save
from regraft.support.files import write_text

FEATURES = 32
SOURCE_SHARES, SOURCE_ROWS = (0.9, 0.8, 0.6), 4000
LEAST, LARGEST, PERIODS = 0.1, 0.9, 3
STRETCH = 0.5, 0.55  # of the stream
OFFSET = 0.5  # standard deviations of the noise
LABEL_NOISE = 0.25
CAUSE, CONFOUNDER = 2.0, 4.0  # distances of the classes along their directions
BLOCK = 50_000
# The peak that the system reports of a child is never below its parent's; this one is its own.
MEASURE = """
import atexit, sys
from pathlib import Path
peak = Path(sys.argv.pop(1))
atexit.register(lambda: peak.write_text(Path("/proc/self/status").read_text()))
from regraft.cli.app import main
main()
"""


def draw(
    share: NDArray[np.float64], random: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Rows and labels; ``share`` (n,) is how likely the confounder agrees with the label."""
    cause = random.integers(2, size=len(share))
    y = cause ^ (random.random(len(share)) < LABEL_NOISE)
    confounder = y ^ (random.random(len(share)) >= share)
    X = random.standard_normal((len(share), FEATURES), dtype=np.float32)
    X[:, 0] += CAUSE * (cause - 0.5)
    X[:, 1] += CONFOUNDER * (confounder - 0.5)
    return X, y


def fit(folder: Path) -> None:
    share = np.repeat(SOURCE_SHARES, SOURCE_ROWS)
    X, y = draw(share, np.random.default_rng(0))
    save(CROClassifier().fit(X, y, np.repeat(range(len(SOURCE_SHARES)), SOURCE_ROWS)), folder)


def make(path: Path, rows: int) -> None:
    """Write the stream, one block in memory at a time."""
    names = [f"f{i}" for i in range(FEATURES)]
    schema = pyarrow.schema([(name, pyarrow.float32()) for name in names])
    settings = {"compression": "none", "use_dictionary": False}
    with pyarrow.parquet.ParquetWriter(path, schema, **settings) as writer:
        for start in range(0, rows, BLOCK):
            at = np.arange(start, min(start + BLOCK, rows)) / rows
            share = LEAST + (LARGEST - LEAST) * (1 - np.cos(2 * np.pi * PERIODS * at)) / 2
            X, _ = draw(share, np.random.default_rng([1, start]))
            X[:, 2] += OFFSET * ((at >= STRETCH[0]) & (at < STRETCH[1]))
            writer.write_table(pyarrow.table(dict(zip(names, X.T, strict=True)), schema=schema))


def run(model: Path, stream: Path, rows: int, batch: int, out: Path) -> dict[str, Any]:
    """Run the command, and count its alarms by where they are."""
    words = ["drift", model, stream, "--batch", batch, "--out", out, "--html", "--quiet"]
    start = time.perf_counter()
    peak = out.with_suffix(".txt")
    process = subprocess.Popen([sys.executable, "-c", MEASURE, *map(str, [peak, *words])])
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"regraft drift ended with status {status}.")
    seconds = time.perf_counter() - start
    counts = {name: [0, 0, 0] for name in ("inside", "outside")}  # batches; closure, accuracy
    begin, end = (round(share * rows) for share in STRETCH)
    covered = 0
    for line in (out / "drift.jsonl").open():
        found = json.loads(line)
        first = found["first_row"] - 1
        inside = first < end and first + found["rows"] > begin
        count = counts["inside" if inside else "outside"]
        count[0] += 1
        count[1] += "closure" in found["alarms"]
        count[2] += "accuracy" in found["alarms"]
        at = (first + found["rows"] / 2) / rows
        truth = LEAST + (LARGEST - LEAST) * (1 - math.cos(2 * math.pi * PERIODS * at)) / 2
        # The last group is the one that the first source has more of.
        covered += not inside and found["lower"][-1] <= truth <= found["upper"][-1]
    return {
        "rows": rows,
        "file_bytes": stream.stat().st_size,
        "peak_bytes": 1024 * int(peak.read_text().partition("VmHWM:")[2].split()[0]),
        "seconds": seconds,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "report_bytes": (out / "report.html").stat().st_size,
        "covered": covered,
        **counts,
    }


def report(results: list[dict[str, Any]], batch: int) -> str:
    columns = [
        *("rows", "rows of a batch", "file (GB)", "peak memory (MB)", "seconds", "of a core"),
        *("page (MB)", "closure alarms in the stretch", "outside", "accuracy alarms"),
        "intervals with the true share",
    ]
    lines = []
    for each in results:
        inside, outside = each["inside"], each["outside"]
        lines.append(
            [
                f"{each['rows']:,}",
                f"{batch:,}",
                f"{each['file_bytes'] / 1e9:.2f}",
                f"{each['peak_bytes'] / 1e6:.0f}",
                f"{each['seconds']:.0f}",
                f"{each['cpu_seconds']:.0f}",
                f"{each['report_bytes'] / 1e6:.2f}",
                f"{inside[1]} of {inside[0]}",
                f"{outside[1]} of {outside[0]}",
                f"{inside[2] + outside[2]}",
                f"{each['covered']} of {outside[0]}",
            ]
        )
    return table(columns, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="1000000,10000000")
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "drift.json")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        fit(folder / "model")
        for rows in map(int, options.rows.split(",")):
            stream = folder / "stream.parquet"
            make(stream, rows)
            out = folder / f"out-{rows}"
            results.append(run(folder / "model", stream, rows, options.batch, out))
            stream.unlink()
    document = {"machine": machine(), "batch": options.batch, "runs": results}
    write_text(options.out, json.dumps(document, indent=2) + "\n")
    print(report(results, options.batch))


if __name__ == "__main__":
    main()
