"""A bank larger than memory should be: fit and predict on a memory map, in seconds and bytes.

python benchmarks/large_bank.py [--folder FOLDER] [--rows 1000000] [--features 768] [--classes 2]

Makes the bank unless FOLDER has it, then opens it in processes of their own, so that the peaks
(resident memory, pages of the file included) are theirs. Writes benchmarks/results/large_bank.json.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from common import HERE, machine, table
from numpy.typing import NDArray

from regraft.data.bank_writer import ARRAYS, BankWriter, Origin, row_inputs
from regraft.data.banks import is_bank, open_bank
from regraft.support.files import write_text

STRENGTHS = (0.9, 0.8, 0.6)  # how often the confounder agrees with the label, by domain
LABEL_NOISE = 0.25
CAUSE, CONFOUNDER = 2.0, 4.0  # lengths of their codes
BLOCK = 8192
TARGET_ROWS = 20_000
MEASURE = "import large_bank, sys; large_bank.measure_{}(*sys.argv[1:])"
# The functions that a fit spends its time in, by file and name.
PARTS = {
    ("domains.py", "check_domains"): "validation",
    ("whitening.py", "fit_whitening"): "covariance",
    ("heads.py", "_sort_and_fold"): "sorting",
    ("whitening.py", "__call__"): "whitening",
    ("heads.py", "_cross_validate"): "cross-validation",
    ("heads.py", "_fit"): "source heads",
    ("game.py", "play"): "game",
    ("group_certificate.py", "certify_latent"): "certificate",
}


def draw(
    domain: NDArray[np.int64], n_features: int, n_classes: int, seed: int, shift: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Rows and labels of the given domains; with a ``shift`` the confounder misleads.

    Noise is louder along some features than along others, as it is in embeddings.
    """
    codes = np.linalg.qr(np.random.default_rng(0).standard_normal((n_features, 2 * n_classes)))[
        0
    ].T.astype(np.float32)
    random = np.random.default_rng([1, seed])
    n = len(domain)

    def change(values: NDArray[np.int64], share: NDArray[np.float64] | float) -> NDArray[np.int64]:
        other = random.integers(1, n_classes, size=n) * (random.random(n) < share)
        return (values + other) % n_classes

    cause = random.integers(n_classes, size=n)
    y = change(cause, LABEL_NOISE)
    confounder = change((y + shift) % n_classes, 1 - np.array(STRENGTHS)[domain])
    X = random.standard_normal((n, n_features), dtype=np.float32)
    X *= np.geomspace(1.0, 0.1, n_features, dtype=np.float32)
    X += CAUSE * codes[cause] + CONFOUNDER * codes[n_classes + confounder]
    return X, y


def make(folder: Path, rows: int, n_features: int, n_classes: int) -> None:
    """Write the bank block by block; goes on where a killed run stopped."""
    with closing(BankWriter(folder, n_features)) as writer:
        for start in range(writer.rows, rows, BLOCK):
            domain = np.arange(start, min(start + BLOCK, rows)) % len(STRENGTHS)
            X, y = draw(domain, n_features, n_classes, seed=start)
            writer.append(X, [y, domain], row_inputs(X, start + 1))
        names = range(n_classes), [f"source {s}" for s in range(len(STRENGTHS))]
        writer.finish(Origin("arrays", "large_bank.py", "", {}), *names)


def part_seconds(profile: cProfile.Profile) -> dict[str, float]:
    """Seconds inside each of PARTS, in the order in which a fit comes to them."""
    inside: dict[str, float] = {}
    for entry in profile.getstats():
        if not isinstance(entry.code, str):
            place = Path(entry.code.co_filename).name, entry.code.co_name
            inside[PARTS.get(place, "")] = entry.totaltime
    return {name: inside[name] for name in PARTS.values() if name in inside}


def peak() -> int:
    """Bytes of the most resident memory that this process has had."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure_fit(folder: str, model_folder: str) -> None:
    """In a process of its own: open, fit, save; prints JSON."""
    from regraft import CROClassifier, save

    imported = peak()
    start = time.perf_counter()
    bank = open_bank(folder)
    opening = time.perf_counter() - start
    profile = cProfile.Profile()
    start, used = time.perf_counter(), time.process_time()
    model = profile.runcall(CROClassifier().fit, bank.X, bank.y, bank.domain)
    fit, used = time.perf_counter() - start, time.process_time() - used
    most = peak()
    save(model, model_folder)
    domain = np.arange(TARGET_ROWS) % len(STRENGTHS)
    X, y = draw(domain, bank.X.shape[1], len(bank.classes), seed=len(bank.X), shift=1)
    pooled = X @ model.pooled_head_[:, :-1].T + model.pooled_head_[:, -1]
    result = {
        "opening_seconds": opening,
        "fit_seconds": fit,
        "fit_cpu_seconds": used,  # more telling where others use the machine too
        "part_seconds": part_seconds(profile),
        "rounds": len(model.rounds_),
        "converged": model.certificate_.converged,
        "gap": model.certificate_.gap,
        "shrinkage": model.regularization_.shrinkage,
        "pooled_ridge": model.regularization_.pooled_ridge,
        "source_ridge": model.regularization_.source_ridge,
        "unseen_accuracy": float(model.score(X, y)),
        "unseen_accuracy_erm": float((pooled.argmax(axis=1) == y).mean()),
        "imports_bytes": imported,
        "peak_bytes": most,
    }
    print(json.dumps(result))


def measure_predict(folder: str, model_folder: str) -> None:
    """In a process of its own: open, load, predict every row; prints JSON."""
    from regraft import load

    bank, model = open_bank(folder), load(model_folder)
    start = time.perf_counter()
    share = float((model.predict(bank.X) == bank.y).mean())
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "accuracy": share, "peak_bytes": peak()}))


def in_own_process(what: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-c", MEASURE.format(what), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=HERE)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def report(result: dict[str, Any]) -> str:
    """The result in Markdown."""
    fit, predict, size = result["fit"], result["predict"], result["file_bytes"]
    rows = [[name, f"{seconds:.1f}"] for name, seconds in fit["part_seconds"].items()]
    rows += [["whole fit", f"{fit['fit_seconds']:.1f}"]]
    rows += [["whole fit, seconds of a core", f"{fit['fit_cpu_seconds']:.1f}"]]
    rows += [["predict", f"{predict['seconds']:.1f}"]]
    return (
        f"{result['rows']:,} × {result['features']} float32 ({size / 1e9:.2f} GB), "
        f"{len(STRENGTHS)} sources, {result['classes']} classes, opened in "
        f"{1e3 * fit['opening_seconds']:.0f} ms. "
        f"Peak memory: fit {fit['peak_bytes'] / 1e9:.2f} GB, {fit['peak_bytes'] / size:.2f} of the "
        f"file; predict {predict['peak_bytes'] / 1e9:.2f} GB, {predict['peak_bytes'] / size:.2f}. "
        f"Unseen domain: {fit['unseen_accuracy']:.1%} (ERM {fit['unseen_accuracy_erm']:.1%}).\n\n"
        + table(["part", "seconds"], rows)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=HERE / "data" / "large-bank")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=768)
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "large_bank.json")
    options = parser.parse_args()
    folder = options.folder.resolve()
    shape = options.rows, options.features
    if not is_bank(folder):
        make(folder, *shape, options.classes)
    bank = open_bank(folder)
    if (bank.X.shape, len(bank.classes)) != (shape, options.classes):
        raise SystemExit(f"{folder} holds another bank, {bank.X.shape}: choose another folder.")
    del bank
    with tempfile.TemporaryDirectory() as model:
        result = {
            "machine": machine(),
            "rows": options.rows,
            "features": options.features,
            "classes": options.classes,
            "file_bytes": (folder / ARRAYS).stat().st_size,
            "fit": in_own_process("fit", str(folder), model),
            "predict": in_own_process("predict", str(folder), model),
        }
    write_text(options.out, json.dumps(result, indent=2) + "\n")
    print(report(result))


if __name__ == "__main__":
    main()
