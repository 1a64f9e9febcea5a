"""The runs of Phase 2: which there are, which are done, and what is written about them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regraft.bench.paper.benchmark import COLORED_MNIST, Benchmark
from regraft.bench.paper.hparams import draw_hparams
from regraft.bench.paper.phase1 import ALGORITHM, Job
from regraft.bench.paper.refinement import ERM, RADIUS, REFITTED, Refinement
from regraft.bench.protocol.seeds import job_seed
from regraft.core.certificate import Family
from regraft.core.surrogates import SurrogateKind
from regraft.support.records import Records

# Raised by hand when the code changes what a run gives, so that records of old code do not count.
FORMAT = 2
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


@dataclass(frozen=True)
class BaselineRun:
    """A head of a job that no game has refined; ``args`` tell it from all others."""

    part: str
    args: dict[str, Any]
    records: Records

    @property
    def is_done(self) -> bool:
        """Whether its record is written."""
        return self.records.done(self.args)

    def perform(self, refinement: Refinement) -> None:
        """Score the head and write the record."""
        accuracies = refinement.baselines()[self.args["algorithm"]]
        self.records.append({"args": self.args, "step": 0, **accuracies})


AnyRun = Run | BaselineRun


class Sweep:
    """The runs on one benchmark with one preset, family and surrogate, on one type of device.

    They have a ``folder`` of their own in ``out``, which other types of devices share.
    """

    def __init__(
        self,
        out: Path,
        preset: str,
        family: Family,
        surrogate: SurrogateKind,
        device: str,
        benchmark: Benchmark = COLORED_MNIST,
    ) -> None:
        self.folder = out / f"{preset}-{family}-{surrogate}"
        self._family, self._benchmark = family, benchmark
        self._fixed = benchmark.fixed if family == "hull" else {}
        self._common: dict[str, Any] = {
            "format": FORMAT,
            "dataset": benchmark.name,
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
        self._baselines = Records(self.folder / "erm.jsonl")

    def runs(self, job: Job, configs: int, ranked: int = 0) -> list[AnyRun]:
        """All runs of a job: the default configuration and random ones.

        Where the benchmark has them, those of ERM come first, and for the trial ``ranked`` the
        ranks last.
        """
        runs: list[AnyRun] = []
        if self._benchmark.compares_erm:
            for head in (ERM, REFITTED):
                args = self._args(job, 0, {}) | {"algorithm": head}
                runs.append(BaselineRun(PHASE_2, args, self._baselines))
        for config in range(configs):
            hparams = {**draw_hparams(self._family, config, job.trial), **self._fixed}
            runs.append(Run(PHASE_2, self._args(job, config, hparams), hparams, self._records))
        if job.trial != ranked or not self._benchmark.sweeps_ranks:
            return runs
        defaults = draw_hparams(self._family, 0, job.trial)
        for rank in RANKS:
            own = {"cro_rank": rank}
            args = self._args(job, 0, defaults | own) | own
            runs.append(Run(RANK_SWEEP, args, defaults | own, self._ranks))
        return runs

    def records(self, runs: Iterable[AnyRun]) -> list[dict[str, Any]]:
        """The records of those ``runs`` that are games and no part of the rank sweep."""
        return _records_of(runs, self._records)

    def baselines(self, runs: Iterable[AnyRun]) -> dict[str, list[dict[str, Any]]]:
        """The records of those ``runs`` that are heads without a game, by the head."""
        found: dict[str, list[dict[str, Any]]] = {}
        for record in _records_of(runs, self._baselines):
            found.setdefault(record["args"]["algorithm"], []).append(record)
        return found

    def rank_curves(self, runs: Iterable[AnyRun]) -> dict[int, list[tuple[int, float]]]:
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
            "seed": job_seed(job.dataset, ALGORITHM, [job.test_env], config, job.trial),
            "data_seed": job.seed,
            # The same seed draws something else once the space is changed.
            "hparams_digest": _digest(hparams),
        }


def _records_of(runs: Iterable[AnyRun], records: Records) -> list[dict[str, Any]]:
    """What ``records`` say of ``runs``, in the order of the file."""
    wanted = [run.args for run in runs]
    return [record for record in records.read() if record["args"] in wanted]


def _digest(hparams: dict[str, Any]) -> str:
    text = json.dumps(hparams, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
