"""Run every benchmark and write benchmarks/RESULTS.md.

python benchmarks/run.py [NAME ...]
"""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import date

from common import HERE, machine

SECTIONS = {
    "cmnist": "Colored MNIST features",
    "confounded": "Planted confounders: every head beside one that is told the factor",
    "price": "The price on data as they are",
    "abduction": "Abduction: false alarms, power, and the certificate's coverage",
    "bounds": "Coverage: do the certificates hold?",
    "intervals": "Intervals: how often the truth is outside",
    "noise": "Noise in the game, and the price of robustness",
    "banks": "Frozen features: all heads on unseen domains",
    "premises": "The premises: what the diagnostics find",
    "moral": "Moral questions (section 5.4)",
    "shifts": "How the domains of known data differ",
    "speed": "Speed and memory",
    "embedding_speed": "Embedding",
    "large_bank": "A large bank",
    "drift": "A stream of 10,000,000 rows",
    "report": "Reports",
}
INTRODUCTION = """# Results

Every section is the output of the command above it, run in the repository. The banks of Colored
MNIST come from `python benchmarks/make_banks.py --mnist DIR --seed S` (S = 0, part of which
`--ship src/regraft/data` puts into the package, and S = 1), made on one NVIDIA H200. Nothing is
tuned on target data, except where a ceiling says so. Colored MNIST from pixels, with the paper's
budget, is in `docs/reproduce.md`; the readings of the paper's adversary in `docs/readings.md`; all
baselines by DomainBed's protocol, and its speed, in `docs/protocol.md`.
"""


def main() -> None:
    names = sys.argv[1:] or list(SECTIONS)
    parts = HERE / "results"
    parts.mkdir(exist_ok=True)
    for name in names:
        print(f"{name} …", flush=True)
        start = time.perf_counter()
        command = [sys.executable, str(HERE / f"{name}.py")]
        text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        minutes = (time.perf_counter() - start) / 60
        (parts / f"{name}.md").write_text(
            f"## {SECTIONS[name]}\n\n`python benchmarks/{name}.py`, {date.today()}, "
            f"{minutes:.1f} min, {machine()}.\n\n{text}"
        )
    sections = [(parts / f"{name}.md") for name in SECTIONS]
    body = "\n".join(path.read_text() for path in sections if path.exists())
    (HERE / "RESULTS.md").write_text(f"{INTRODUCTION}\n{body}")


if __name__ == "__main__":
    main()
