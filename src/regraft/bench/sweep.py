"""The runs of Phase 2: which there are, which are done, and what is written about them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regraft.bench.hparams import draw_hparams
from regraft.bench.phase1 import ALGORITHM, DATASET, Job
from regraft.bench.records import Records
from regraft.bench.refinement import Refinement
from regraft.bench.seeds import job_seed
from regraft.certificate import Family
from regraft.samples import SurrogateKind

PHASE_2, RANK_SWEEP = "Phase 2", "rank sweep"
# Of the transplant dimension, denser where the paper's method begins to fail.
RANKS = (1, 2, 4, 8, 16, 32, 64, 96, 113, 120, 125, 127, 128)


@dataclass(frozen=True)
class Run:
    """One configuration of a job; ``args`` tell it from all others."""

    part: str  # PHASE_2 or RANK_SWEEP
    args: dict[str, Any]
    hparams: dict[str, Any]
    records: Records

    @property
    def is_done(self) -> bool:
        """Whether its record is written."""
        return self.records.done(self.args)

    def perform(self, refinement: Refinement) -> None:
        """Refine the head of the run's job and write the record."""
        start = time.perf_counter()
        results = refinement.run(self.hparams)
        seconds = round(time.perf_counter() - start, 3)
        record = {"args": self.args, "hparams": self.hparams, **results, "seconds": seconds}
        self.records.append(record)


class Sweep:
    """The runs with one preset, family and surrogate, whose records are in ``folder``."""

    def __init__(self, folder: Path, preset: str, family: Family, surrogate: SurrogateKind) -> None:
        self._family = family
        self._common = {
            "dataset": DATASET,
            "algorithm": ALGORITHM,
            "family": family,
            "surrogate": surrogate,
            "preset": preset,
        }
        self._records = Records(folder / "records.jsonl")
        self._ranks = Records(folder / "ranks.jsonl")

    def runs(self, job: Job, configs: int) -> list[Run]:
        """All runs of a job: the default configuration, random ones, and for trial 0 the ranks."""
        runs = [
            Run(
                PHASE_2,
                self._args(job, config),
                draw_hparams(self._family, config, job.trial),
                self._records,
            )
            for config in range(configs)
        ]
        if job.trial > 0:
            return runs
        args, defaults = self._args(job, 0), draw_hparams(self._family, 0, job.trial)
        for rank in RANKS:
            own = {"cro_rank": rank}
            runs.append(Run(RANK_SWEEP, args | own, defaults | own, self._ranks))
        return runs

    def records(self) -> list[dict[str, Any]]:
        """The records of all configurations of this sweep, whoever asked for them."""
        return self._own(self._records)

    def rank_curves(self) -> dict[int, list[tuple[int, float]]]:
        """Pairs of a transplant dimension and the error rate, by held-out environment."""
        curves: dict[int, list[tuple[int, float]]] = {}
        for record in self._own(self._ranks):
            (env,) = record["args"]["test_envs"]
            point = record["args"]["cro_rank"], 1 - record[f"env{env}_in_acc"]
            curves.setdefault(env, []).append(point)
        return curves

    def _args(self, job: Job, config: int) -> dict[str, Any]:
        return self._common | {
            "test_envs": [job.test_env],
            "hparams_seed": config,
            "trial_seed": job.trial,
            "seed": job_seed(DATASET, ALGORITHM, [job.test_env], config, job.trial),
        }

    def _own(self, records: Records) -> list[dict[str, Any]]:
        return [
            record for record in records.read() if self._common.items() <= record["args"].items()
        ]
