"""Every reading of the paper's algorithm that was tried, on the three Colored MNIST cells.

    python benchmarks/readings.py --out regraft-cmnist [--data DIR] [--device cuda] [--jobs 16]
        [--test-envs 2]

Phase 1 (preset paper, trial 0) is taken from the folder or trained into it; each reading then
plays the same draws of the paper's hyperparameter ranges. Records are appended to
readings.jsonl, so that a killed run goes on where it was; the tables are printed at the end.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from adam_learner import AdamLearner
from common import table
from torch import Tensor

from regraft.bench.algorithms.games import RADIUS, game_space
from regraft.bench.datasets.colored_mnist import ENVIRONMENTS
from regraft.bench.datasets.mnist import load_mnist
from regraft.bench.paper.benchmark import COLORED_MNIST
from regraft.bench.paper.experiment import RANKS
from regraft.bench.paper.figures import draw_ranks
from regraft.bench.paper.phase1 import PhaseOne
from regraft.bench.paper.pretraining import PRESETS, DigitTrainer, fingerprint
from regraft.bench.paper.trained_features import TrainedFeatures
from regraft.bench.protocol.spaces import draw_configuration
from regraft.core.free_adversary import FreeAdversary, FreeAdversaryOptions
from regraft.core.game import GameOutcome, play
from regraft.core.heads import SourceHeads, fit_source_heads
from regraft.core.hull_adversary import make_hull_adversary
from regraft.core.learner import Learner
from regraft.core.standardization import standardize
from regraft.core.surrogates import SurrogateKind, WeightedSample
from regraft.support.pictures import write_picture
from regraft.support.records import Records

FREE_OPTIONS = FreeAdversaryOptions.__dataclass_fields__
RANK_READING = "free, relabelled, over r"


@dataclass(frozen=True)
class Reading:
    """One way to read sections 2 and 3 and Appendix B."""

    family: str
    surrogate: SurrogateKind
    coordinates: str = "standardized"  # of the free adversary: or raw, or whitened
    learner: str = "solved"  # or adam
    changes: dict[str, float] = field(default_factory=dict)  # factors on the drawn values
    carried: bool = True
    adversary: type[FreeAdversary] = FreeAdversary
    rank: int | None = None  # instead of the drawn one
    draws: int = 4


class AbductionNorms(FreeAdversary):
    """Penalizes |A_1| ... |A_K|, |A_star| and |L| instead of the transplants."""

    def _operator_norms(self, free: Tensor) -> Tensor:
        # A_s is L plus a part orthogonal to it, and L is orthonormal.
        norms = (1 + torch.linalg.matrix_norm(free, 2).square()).sqrt()
        return torch.cat([norms, norms.new_ones(1)])


READINGS = {
    "hull, reweighted": Reading("hull", "reweighted", draws=8),
    "hull, relabelled": Reading("hull", "relabelled"),
    "hull, transplanted": Reading("hull", "transplanted"),
    "free, relabelled": Reading("free", "relabelled", draws=8),
    "free, relabelled, fresh adversary each round": Reading("free", "relabelled", carried=False),
    "free, relabelled, raw features": Reading("free", "relabelled", "raw"),
    "free, relabelled, whitened features": Reading("free", "relabelled", "whitened"),
    "free, relabelled, learner by Adam": Reading("free", "relabelled", learner="adam"),
    "free, relabelled, Fit summed over sources": Reading(
        "free", "relabelled", changes={"cro_lambda_consist": 2.0}
    ),
    "free, relabelled, no closure penalty": Reading(
        "free", "relabelled", changes={"cro_lambda_hausdorff": 0.0}
    ),
    "free, relabelled, no operator penalty": Reading(
        "free", "relabelled", changes={"cro_lambda_op": 0.0}
    ),
    "free, relabelled, operator penalty x 10": Reading(
        "free", "relabelled", changes={"cro_lambda_op": 10.0}
    ),
    RANK_READING: Reading("free", "relabelled", draws=0),
    "free, relabelled, norms of A and L penalized": Reading(
        "free", "relabelled", adversary=AbductionNorms
    ),
    "free, relabelled, r = 127": Reading("free", "relabelled", rank=127),
    "free, reweighted": Reading("free", "reweighted"),
    "free, transplanted": Reading("free", "transplanted"),
    "free, transplanted, whitened features": Reading("free", "transplanted", "whitened"),
    "free, transplanted, raw features, learner by Adam": Reading(
        "free", "transplanted", "raw", learner="adam", draws=2
    ),
}


@dataclass(frozen=True)
class Cell:
    """What all readings of a cell share."""

    features: TrainedFeatures
    sources: SourceHeads


@dataclass(frozen=True)
class Task:
    reading: str
    test_env: int
    draw: int
    rank: int | None = None

    @property
    def args(self) -> dict[str, Any]:
        args = {"reading": self.reading, "test_env": self.test_env, "hparams_seed": self.draw}
        return args if self.rank is None else args | {"cro_rank": self.rank}


CELLS: dict[int, Cell] = {}  # filled before the workers are forked


def load_features(
    data: Path | None, device: str, out: Path, envs: list[int]
) -> list[TrainedFeatures]:
    """Phase 1 of the cells, from the folder or trained into it."""
    images, digits = load_mnist(data)
    trainer = DigitTrainer(images, digits, PRESETS["paper"], torch.device(device))
    phase1 = PhaseOne(COLORED_MNIST, trainer, fingerprint(images, digits), out)
    jobs = [phase1.job(env, 0) for env in envs]
    checkpoints = phase1.checkpoints(jobs, print)
    return [phase1.features(job, checkpoints[job]).open() for job in jobs]


def perform(task: Task) -> dict[str, Any]:
    torch.set_num_threads(1)
    cell, reading = CELLS[task.test_env], READINGS[task.reading]
    hparams = draw_configuration(
        game_space(reading.family, None, 2, COLORED_MNIST.name), task.draw, 0
    )
    hparams |= {name: factor * hparams[name] for name, factor in reading.changes.items()}
    rank = reading.rank if task.rank is None else task.rank
    hparams |= {} if rank is None else {"cro_rank": rank}
    start = time.perf_counter()
    run = play_hull if reading.family == "hull" else play_free
    outcome, to_features = run(cell, reading, hparams, task.draw)
    return {
        "args": task.args,
        "hparams": hparams,
        **accuracies(cell.features, to_features(outcome.head)),
        "rounds": len(outcome.rounds),
        "value": outcome.rounds[-1].value,
        "gap": outcome.rounds[-1].gap,
        "converged": outcome.converged,
        "seconds": round(time.perf_counter() - start, 1),
    }


Played = tuple[GameOutcome, Callable[[Tensor], Tensor]]


def play_hull(cell: Cell, reading: Reading, hparams: dict[str, Any], seed: int) -> Played:
    sources = cell.sources
    # Risk, as in the free family, whatever objective the draw has.
    _, adversary = make_hull_adversary(sources, radius=RADIUS, surrogate=reading.surrogate)
    learner = Learner(ridge=sources.learner_ridge(hparams["ridge"]))
    outcome = play(adversary, learner, sources.pooled, tolerance=hparams["cro_gap_eps"])
    return outcome, sources.whitening.to_features


def play_free(cell: Cell, reading: Reading, hparams: dict[str, Any], seed: int) -> Played:
    rows, start, to_features = coordinates(cell, reading.coordinates)
    ridge = cell.sources.regularization.pooled_ridge
    options = {name: value for name, value in hparams.items() if name in FREE_OPTIONS}
    adversary = reading.adversary(
        rows,
        cell.sources.slices,
        start,
        FreeAdversaryOptions(**options, carried=reading.carried),
        reading.surrogate,
        seed,
    )
    learner = Learner(ridge=ridge)
    if reading.learner == "adam":
        learner = AdamLearner(
            ridge=ridge,
            lr=hparams["cro_learner_lr"],
            epochs=hparams["cro_learner_epochs"],
            batch=hparams["cro_learner_batch"],
            seed=seed,
        )
    outcome = play(
        adversary,
        learner,
        start,
        tolerance=hparams["cro_gap_eps"],
        max_rounds=hparams["cro_max_outer_iters"],
    )
    return outcome, to_features


def coordinates(cell: Cell, name: str) -> tuple[WeightedSample, Tensor, Callable[[Tensor], Tensor]]:
    """Rows [x, 1], the starting head on them, and the map of heads back to features.

    The start is Phase 1's head; on whitened rows, which may lack directions, the pooled one.
    """
    sources, scaled = cell.sources, standardize(cell.sources)
    if name == "whitened":
        rows = WeightedSample(sources.Z, sources.y, sources.weight)
        return rows, sources.pooled, sources.whitening.to_features
    if name == "raw":
        x = scaled.rows.Z[:, :-1] * scaled.scale + scaled.mean
        rows = replace(scaled.rows, Z=torch.cat([x, scaled.rows.Z[:, -1:]], dim=1))
        scaled = replace(
            scaled,
            rows=rows,
            mean=torch.zeros_like(scaled.mean),
            scale=torch.ones_like(scaled.scale),
        )
    return scaled.rows, scaled.from_features(cell.features.head), scaled.to_features


def accuracies(features: TrainedFeatures, head: Tensor) -> dict[str, float]:
    """Score a head on the target's protocol rows, and on held-out source rows on average."""

    def score(env: int, rows: Tensor) -> float:
        logits = features.X[env][rows].to(head) @ head[:, :-1].T + head[:, -1]
        return float((logits.argmax(dim=1) == features.y[env][rows]).double().mean())

    target = score(features.test_env, features.rows_in[features.test_env])
    sources = [score(env, features.rows_out[env]) for env in features.sources]
    return {"target": target, "source": float(np.mean(sources))}


def every_task(names: list[str], envs: list[int]) -> Iterator[Task]:
    for name in names:
        for env in sorted(envs, reverse=True):  # the diagnostic one first
            if name == RANK_READING:
                yield from (Task(name, env, 0, rank) for rank in RANKS)
            yield from (Task(name, env, draw) for draw in range(1, READINGS[name].draws + 1))


def report(records: list[dict[str, Any]], out: Path) -> None:
    header = ["reading", "draws"]
    header += [f"{ENVIRONMENTS[env]}: mean (range)" for env in range(3)]
    header += ["source accuracy on −90%", "rounds", "M", "−90% by source validation"]
    lines = []
    for name, reading in READINGS.items():
        runs = [r for r in records if r["args"]["reading"] == name and "cro_rank" not in r["args"]]
        cells = [[r for r in runs if r["args"]["test_env"] == env] for env in range(3)]
        if not runs or len(cells[2]) < reading.draws:
            continue
        done = [cell if len(cell) >= reading.draws else [] for cell in cells]
        spans = [span([r["target"] for r in cell]) if cell else "" for cell in done]
        last = cells[2]
        rounds = sorted({r["rounds"] for r in last})
        chosen = max(last, key=lambda r: r["source"])
        lines.append(
            [
                name,
                reading.draws,
                *spans,
                span([r["source"] for r in last]),
                f"{rounds[0]}–{rounds[-1]}",
                f"{np.mean([r['value'] for r in last]):.3f}",
                f"{100 * chosen['target']:.1f}",
            ]
        )
    print(table(header, lines), "\n")
    curves = rank_curves(records)
    if all(curves.values()):
        write_picture(draw_ranks({RANK_READING: curves}), out / "readings_ranks.png")
        header = ["r", *(str(rank) for rank, _ in curves[0])]
        rows = [
            [ENVIRONMENTS[env], *(f"{100 * (1 - risk):.1f}" for _, risk in curves[env])]
            for env in range(3)
        ]
        print(table(header, rows))


def rank_curves(records: list[dict[str, Any]]) -> dict[int, list[tuple[int, float]]]:
    """Pairs of a transplant dimension and the error rate, sorted, by held-out environment."""
    ranked = [r for r in records if "cro_rank" in r["args"]]
    return {
        env: sorted(
            (r["args"]["cro_rank"], 1 - r["target"]) for r in ranked if r["args"]["test_env"] == env
        )
        for env in range(len(ENVIRONMENTS))
    }


def span(values: list[float]) -> str:
    return f"{100 * np.mean(values):.1f} ({100 * min(values):.0f}–{100 * max(values):.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("regraft-cmnist"))
    parser.add_argument("--data", type=Path, help="folder of MNIST's idx files")
    parser.add_argument("--device", default="cpu", help="of Phase 1, if it must be trained")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--readings", nargs="+", choices=list(READINGS), default=list(READINGS))
    envs = list(range(len(ENVIRONMENTS)))
    parser.add_argument("--test-envs", type=int, nargs="+", choices=envs, default=envs)
    args = parser.parse_args()
    torch.set_num_threads(1)  # the workers share the cores

    phase1 = args.data, args.device, args.out, args.test_envs
    # Training in a process of its own: autograd's threads do not survive the forks below.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(load_features, *phase1).result()
    for features in load_features(*phase1):
        CELLS[features.test_env] = Cell(features, fit_source_heads(features.domains()))

    records = Records(args.out / "readings.jsonl")
    tasks = [
        task for task in every_task(args.readings, args.test_envs) if not records.done(task.args)
    ]
    started = time.perf_counter()
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("fork")) as pool:
        futures = [pool.submit(perform, task) for task in tasks]
        for done, future in enumerate(as_completed(futures), start=1):
            record = future.result()
            records.append(record)
            print(
                f"{done}/{len(tasks)} {record['args']}: target {record['target']:.3f}, "
                f"{record['seconds']:.0f} s; {time.perf_counter() - started:.0f} s so far",
                flush=True,
            )
    report(records.read(), args.out)


if __name__ == "__main__":
    main()
