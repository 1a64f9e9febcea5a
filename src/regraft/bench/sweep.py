"""The runs of Phase 2: which there are, which are done, and what is written about them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regraft.bench.hparams import draw_hparams
from regraft.bench.phase1 import ALGORITHM, DATASET, Job
from regraft.bench.records import Records
from regraft.bench.refinement import RADIUS, Refinement
from regraft.bench.seeds import job_seed
from regraft.certificate import Family
from regraft.samples import SurrogateKind

# Raised by hand when the code changes what a run gives, so that records of old code do not count.
FORMAT = 1
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
        results = refinement.run(self.hparams, seed=self.args["seed"])
        seconds = round(time.perf_counter() - start, 3)
        record = {"args": self.args, "hparams": self.hparams, **results, "seconds": seconds}
        self.records.append(record)


class Sweep:
    """The runs with one preset, family and surrogate on one type of device.

    They have a ``folder`` of their own in ``out``, which other types of devices share.
    """

    def __init__(
        self, out: Path, preset: str, family: Family, surrogate: SurrogateKind, device: str
    ) -> None:
        self.folder = out / f"{preset}-{family}-{surrogate}"
        self._family = family
        self._common: dict[str, Any] = {
            "format": FORMAT,
            "dataset": DATASET,
            "algorithm": ALGORITHM,
            "family": family,
            "surrogate": surrogate,
            "preset": preset,
            "device": device,
        }
        if family == "hull":
            self._common["radius"] = RADIUS
        self._records = Records(self.folder / "records.jsonl")
        self._ranks = Records(self.folder / "ranks.jsonl")

    def runs(self, job: Job, configs: int) -> list[Run]:
        """All runs of a job: the default configuration, random ones, and for trial 0 the ranks."""
        runs = []
        for config in range(configs):
            hparams = draw_hparams(self._family, config, job.trial)
            runs.append(Run(PHASE_2, self._args(job, config, hparams), hparams, self._records))
        if job.trial > 0:
            return runs
        defaults = draw_hparams(self._family, 0, job.trial)
        for rank in RANKS:
            own = {"cro_rank": rank}
            args = self._args(job, 0, defaults | own) | own
            runs.append(Run(RANK_SWEEP, args, defaults | own, self._ranks))
        return runs

    def records(self, runs: Iterable[Run]) -> list[dict[str, Any]]:
        """The records of those ``runs`` that are no part of the rank sweep."""
        return _records_of(runs, self._records)

    def rank_curves(self, runs: Iterable[Run]) -> dict[int, list[tuple[int, float]]]:
        """Pairs of a transplant dimension and the error rate, by held-out environment."""
        curves: dict[int, list[tuple[int, float]]] = {}
        for record in _records_of(runs, self._ranks):
            (env,) = record["args"]["test_envs"]
            point = record["args"]["cro_rank"], 1 - record[f"env{env}_in_acc"]
            curves.setdefault(env, []).append(point)
        return curves

    def _args(self, job: Job, config: int, hparams: dict[str, Any]) -> dict[str, Any]:
        return self._common | {
            "test_envs": [job.test_env],
            "hparams_seed": config,
            "trial_seed": job.trial,
            "seed": job_seed(DATASET, ALGORITHM, [job.test_env], config, job.trial),
            "data_seed": job.seed,
            # The same seed draws something else once the space is changed.
            "hparams_digest": _digest(hparams),
        }


def _records_of(runs: Iterable[Run], records: Records) -> list[dict[str, Any]]:
    """What ``records`` say of ``runs``, in the order of the file."""
    wanted = [run.args for run in runs]
    return [record for record in records.read() if record["args"] in wanted]


def _digest(hparams: dict[str, Any]) -> str:
    text = json.dumps(hparams, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
