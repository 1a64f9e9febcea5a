"""How the preset `best` was chosen: candidates for Phase 1, judged on held-out source rows alone.

    python benchmarks/presets.py --device cuda [--data DIR] [--out regraft-presets]

Prints the cross-entropy of the pooled ERM head on the sources' held-out rows, by cell (trial 0);
smaller is better. No target row is looked at. About five minutes on a GPU.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from common import table

from regraft.bench.datasets.colored_mnist import ENVIRONMENTS
from regraft.bench.datasets.mnist import load_mnist
from regraft.bench.paper.benchmark import COLORED_MNIST
from regraft.bench.paper.phase1 import PhaseOne
from regraft.bench.paper.pretraining import PRESETS, DigitTrainer, Preset, fingerprint
from regraft.bench.paper.trained_features import TrainedFeatures
from regraft.core.heads import fit_source_heads
from regraft.core.newton import log_probabilities, losses

CANDIDATES = (
    PRESETS["paper"],
    Preset("small-moves", steps=4000, batch=64, shift=2.0, rotation=0.3),
    Preset("moves", steps=6000, batch=128, shift=3.0, rotation=0.5, average=0.999),
    Preset("wide-moves", steps=6000, batch=128, shift=4.0, rotation=0.7, average=0.999),
    Preset("long", steps=12000, batch=128, shift=3.0, rotation=0.5, average=0.999),
    PRESETS["best"],
)


def source_loss(features: TrainedFeatures) -> float:
    """Mean cross-entropy of the pooled head over held-out rows of the sources."""
    fitted = fit_source_heads(features.domains())
    held_out = torch.cat([features.X[i][features.rows_out[i]] for i in features.sources]).double()
    labels = torch.cat([features.y[i][features.rows_out[i]] for i in features.sources])
    log_p = log_probabilities(fitted.whitening(held_out), fitted.pooled)
    return float(losses(log_p, labels).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("regraft-presets"))
    parser.add_argument("--data", type=Path, help="folder of MNIST's idx files")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    images, digits = load_mnist(args.data)
    mark, device = fingerprint(images, digits), torch.device(args.device)
    rows = []
    for preset in CANDIDATES:
        trainer = DigitTrainer(images, digits, preset, device)
        phase1 = PhaseOne(COLORED_MNIST, trainer, mark, args.out)
        jobs = [phase1.job(env, 0) for env in range(len(ENVIRONMENTS))]
        checkpoints = phase1.checkpoints(jobs, lambda _: None)
        values = [source_loss(phase1.features(job, checkpoints[job]).open()) for job in jobs]
        rows.append([preset.name, *(f"{v:.4f}" for v in values), f"{sum(values) / 3:.4f}"])
        print(*rows[-1], flush=True)
    print("\n" + table(["preset", *(f"{env} held out" for env in ENVIRONMENTS), "mean"], rows))


if __name__ == "__main__":
    main()
