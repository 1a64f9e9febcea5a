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
import vl_convert
from common import table

from regraft import load_demo
from regraft.report import write_report

REPEATS = 5
POINT = {"mark": "point", "data": {"values": [{"x": 1}]}, "encoding": {"x": {"field": "x"}}}


def call(*arguments: object) -> None:
    program = "from regraft.cli import main; main()"
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
        # The library's own page of one chart is the peer: both bundle its script.
        peer = seconds(lambda: vl_convert.vegalite_to_html(POINT, bundle=True))
        rows = []
        for name, place in (
            ("regraft demo --html", demo),
            ("fit, frontier, compare, diagnose, audit", run),
        ):
            size = write_report(place).stat().st_size
            process = seconds(lambda place=place: call("report", place))
            inside = seconds(lambda place=place: write_report(place))
            rows.append(
                (
                    name,
                    f"{size / 1e6:.2f} MB",
                    f"{process:.1f} s",
                    f"{inside:.2f} s",
                    f"{inside / peer:.2f}",
                )
            )
    print(
        "A page of each folder of results; medians of five. The command also loads torch. The "
        f"peer is the charts' library writing one point as a page of its own, {peer:.2f} s.\n"
    )
    print(table(["results", "size", "`regraft report`", "`write_report`", "of the peer"], rows))
    print(
        f"\n`regraft fit --html` on {len(bank.y):,} × {bank.X.shape[1]} rows takes "
        f"{full / plain:.1f} times as long as `regraft fit` ({full:.1f} s and {plain:.1f} s): it "
        "holds rows out, fits again and draws the frontier."
    )


if __name__ == "__main__":
    main()
