"""Section 5.4 on MoralChoice's scenarios with MiniLM features, and how long the diagnostics take.

python benchmarks/moral.py [--records 14000] [--seed 0] [--permissiveness 0 1.68]

Labels come from the documented response model, not from people and not from a language model: at
its default permissiveness, and at the one at which the panels are as far apart as the paper's.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import pairwise

import numpy as np
from common import SHARED, table
from sklearn.linear_model import LogisticRegression

from regraft import diagnose
from regraft.encoders import load_text_encoder
from regraft.moral.experiment import MoralResult, run_moral
from regraft.moral.process import draw_records
from regraft.moral.responses import (
    PAPER_PERMISSIVENESS,
    describe_mechanism,
    response_probabilities,
)
from regraft.moral.scenarios import Library, read_library
from regraft.moral.tables import remarks, result_tables
from regraft.premises.deduction_invariance import WELL_SAMPLED
from regraft.support.table import Table

ENCODER = "minilm"
CALIBRATION, COSINE, DEDUCTION, SECONDS = 0.01, 0.99, 1e-6, 120.0


def bars(result: MoralResult, seconds: float) -> str:
    diagnosis = result.diagnosis
    calibration = max(part.calibration_error for part in diagnosis.closure.domains)
    large = [cell for cell in diagnosis.invariance.cells if cell.records >= WELL_SAMPLED]
    cosine, alone = (min(getattr(c, k) for c in large) for k in ("cosine", "cosine_alone"))
    deduction = max(point.deduction_norm for point in diagnosis.basis.points)
    hausdorff = [point.hausdorff for point in diagnosis.basis.points]
    few, many = result.median_angles.values()
    falls = all(a >= b for a, b in pairwise(hausdorff))
    rows = [
        ["largest calibration error of a panel", f"≤ {CALIBRATION}", f"{calibration:.4f}"],
        ["median principal angle, 2,000 records and all", "stable", f"{few:.1f}°, {many:.1f}°"],
        [
            f"least cosine of {len(large)} columns with {WELL_SAMPLED} or more records",
            f"≥ {COSINE}",
            f"{cosine:.4f}, pulled by {diagnosis.invariance.pull:g} as held-out rows ask; fitted "
            f"to the cell alone {alone:.3f}",
        ],
        ["largest norm of D^T L over the penalties", f"< {DEDUCTION:g}", f"{deduction:.0e}"],
        [
            "Hausdorff over the penalties",
            "falls",
            f"{', '.join(f'{h:.3g}' for h in hausdorff)}{'' if falls else ' (does not)'}",
        ],
        ["all diagnostics, seconds", f"< {SECONDS:g}", f"{seconds:.0f}"],
    ]
    return table(["what", "bar", "measured"], rows)


def timed(library: Library, records: int, seed: int) -> tuple[float, float]:
    """Seconds of all diagnostics, and of one logistic regression of U in one panel."""
    features = load_text_encoder(ENCODER).encode(library.texts).astype(np.float64)
    drawn = draw_records(library, response_probabilities(library), records, seed=seed)
    X = features[drawn.scenario]
    start = time.perf_counter()
    diagnose(X, drawn.y, drawn.panel, drawn.profile)
    ours = time.perf_counter() - start
    own = drawn.panel == 0
    start = time.perf_counter()
    LogisticRegression(max_iter=1000).fit(X[own], drawn.profile[own])
    return ours, time.perf_counter() - start


def show(shown: Table) -> None:
    print(f"\n**{shown.title}**\n")
    print(table(shown.columns, shown.texts()))


def run(library: Library, permissiveness: float, records: int, seed: int) -> MoralResult:
    result, _ = run_moral(
        library,
        response_probabilities(library, permissiveness=permissiveness),
        describe_mechanism(permissiveness),
        load_text_encoder(ENCODER),
        records=records,
        seed=seed,
        on_progress=lambda step: print(step, file=sys.stderr, flush=True),
    )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=14_000)
    parser.add_argument("--seed", type=int, default=0)
    levels = [0.0, PAPER_PERMISSIVENESS]
    parser.add_argument("--permissiveness", type=float, nargs="+", default=levels)
    options = parser.parse_args()
    library = read_library(SHARED / "moralchoice")
    ours, peer = timed(library, options.records, options.seed)
    print(f"{library.origin}. Seed {options.seed}, {options.records} records a panel.\n")
    print(
        f"One multinomial `LogisticRegression` of U in one panel takes {peer:.1f} s: all "
        f"diagnostics take {ours:.0f} s, {ours / peer:.1f} times as long.\n"
    )
    for permissiveness in options.permissiveness:
        result = run(library, permissiveness, options.records, options.seed)
        print(f"### Permissiveness {permissiveness:g}\n\n{result.mechanism}\n")
        print(bars(result, ours))
        for shown in result_tables(result):
            show(shown)
        sentences = (*result.diagnosis.paragraphs(), *remarks(result))
        print("", *(f"- {sentence}" for sentence in sentences), "", sep="\n")


if __name__ == "__main__":
    main()
