"""Reports: how long one takes from a finished run, how large it is, and what --html adds to a fit.

python benchmarks/report.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from common import table

from regraft import load_demo
from regraft.report import write_report

REPEATS = 5
PEER = """
import torch
import vl_convert

data = {"values": [{"x": 1}]}
point = {"mark": "point", "data": data, "encoding": {"x": {"field": "x", "type": "nominal"}}}
vl_convert.vegalite_to_html(point, bundle=True)
"""


def call(*arguments: object) -> None:
    program = "from regraft.cli.app import main; main()"
    words = [sys.executable, "-c", program, *map(str, arguments), "--quiet"]
    subprocess.run(words, check=True)


def seconds(function: Callable[[], object], repeats: int = REPEATS) -> float:
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        taken.append(time.perf_counter() - start)
    return median(taken)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        demo, run, data = (Path(folder) / name for name in ("demo", "run", "demo.npz"))
        bank = load_demo()
        np.savez(data, X=bank.X, y=bank.y, sample_domain=bank.sample_domain)
        call("demo", "--out", demo, "--html")
        plain = seconds(lambda: call("fit", data, "--out", run), repeats=3)
        full = seconds(lambda: call("fit", data, "--out", run, "--html"), repeats=3)
        for command in ("frontier", "compare", "diagnose"):
            call(command, data, "--out", run)
        call("audit", run, data, "--out", run)
        peer = seconds(lambda: subprocess.run([sys.executable, "-c", PEER], check=True))
        rows = []
        results = {
            "`regraft demo --html`": demo,
            "`fit`, `frontier`, `compare`, `diagnose`, `audit`": run,
        }
        for name, place in results.items():
            size = write_report(place).stat().st_size
            taken = seconds(lambda place=place: call("report", place))
            rows.append((name, f"{size / 1e6:.2f} MB", f"{taken:.1f} s", f"{taken / peer:.2f}"))
    print(
        "`regraft report` on a folder of results, as a process of its own; medians of five. The "
        "peer, also a process, loads torch and has the charts' library write one point as a page "
        f"that needs no network: {peer:.1f} s.\n"
    )
    print(table(["results of", "size", "time", "of the peer's"], rows))
    print(
        f"\n`regraft fit --html` on {len(bank.y):,} × {bank.X.shape[1]} rows takes "
        f"{full / plain:.1f} times as long as `regraft fit` ({full:.1f} s and {plain:.1f} s): both "
        "measure on rows held out, and the page alone is added."
    )


if __name__ == "__main__":
    main()
