"""Phase 1: every training and its features are made once and kept in files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regraft.bench.algorithms.games import GameFamily
from regraft.bench.paper.benchmark import Benchmark
from regraft.bench.paper.trained_features import CRO, HEAD, KeptFeatures
from regraft.bench.protocol.cache import read_cache, write_cache
from regraft.bench.protocol.jobs import Job
from regraft.support.digests import digest_parts, digest_text
from regraft.support.files import remove_unfinished
from regraft.support.progress import Countdown, OnProgress

if TYPE_CHECKING:
    from regraft.bench.paper.fine_tuning import ImageTrainer
    from regraft.bench.paper.pretraining import DigitTrainer

# Raised by hand when the code changes what a training gives, so that old caches do not answer.
FORMAT = 1
_KINDS = _CHECKPOINTS, _FEATURES, _UNDER_WAY = "phase1", "features", "under-way"
_DIGITS = 12  # of a fingerprint
STEP = "step"  # under which the state of a training has the steps taken

Tensors = Mapping[str, Tensor]
Kept = Sequence[Tensors | None]  # states of trainings, None of those that are not begun
Keep = Callable[[Job, Tensors], None]  # is given a state to go on from
Progress = Callable[[int], None]  # is told the steps taken
Checkpoint = dict[str, Tensor]  # parameters of Sequential(featurizer, Linear), on the CPU


@dataclass(frozen=True)
class PhaseOne:
    """Trains with ``trainer`` and keeps what it makes in ``folder``.

    ``data`` is the fingerprint of the data. A job stands for all runs that share its test
    environment and trial. DomainBed draws the data anew for every configuration; those that share
    a Phase 1 cannot, because rows it was trained on would come into their validation split. So
    all take the data of the default configuration.
    """

    benchmark: Benchmark
    trainer: DigitTrainer | ImageTrainer
    data: str
    folder: Path

    def job(self, test_env: int, trial: int) -> Job:
        """Return the default run of CRO, whose seed draws data, weights and minibatches."""
        text = json.dumps(self._common_key, sort_keys=True)
        mark = digest_text(text)[:_DIGITS]
        return Job(self.benchmark.name, CRO, (test_env,), trial, fingerprint=mark)

    def remove_unfinished(self) -> None:
        """Remove what killed processes left in the folder, in which no other may be at work."""
        for kind in _KINDS:
            remove_unfinished(self.folder / kind)

    def checkpoints(self, jobs: Sequence[Job], on_progress: OnProgress) -> dict[Job, Checkpoint]:
        """Return the trained parameters, after training what is missing or damaged."""
        found = {job: kept for job in jobs if (kept := self._read(_CHECKPOINTS, job)) is not None}
        missing = [job for job in jobs if job not in found]
        begun = {job: self._read(_UNDER_WAY, job) for job in missing}
        steps = self.trainer.preset.steps
        done = sum(map(steps_taken, begun.values()))
        countdown = Countdown("Phase 1, steps", len(missing) * steps, done)
        # Elsewhere than on a GPU nothing would be gained, and a kill would lose them all.
        size = max(1, len(missing)) if self.trainer.is_parallel else 1
        for first in range(0, len(missing), size):
            group = missing[first : first + size]
            states = [begun.pop(job) for job in group]
            done -= sum(map(steps_taken, states))

            def tell(taken: int, before: int = done, n: int = len(group)) -> None:
                on_progress(countdown.advance(before + n * taken))

            trained = self.trainer.train(group, states, self._keep, tell)
            for job, checkpoint in zip(group, trained, strict=True):
                write_cache(self._path(_CHECKPOINTS, job), self._key(job), checkpoint)
                self._path(_UNDER_WAY, job).unlink(missing_ok=True)
                found[job] = checkpoint
            done += len(group) * steps
        return found

    def features(
        self, job: Job, checkpoint: Checkpoint, family: GameFamily = "hull"
    ) -> KeptFeatures:
        """Return what the runs of a job see, after computing what is missing or damaged."""
        # A checkpoint trained again elsewhere may differ: its features must not be the old ones.
        digest = digest_parts(t.contiguous().numpy().data for _, t in sorted(checkpoint.items()))
        path, key = self._path(_FEATURES, job), self._key(job) | {"checkpoint": digest}
        kept = read_cache(path, key)
        if kept is None or HEAD not in kept:
            X, y = self.trainer.embed(job, checkpoint)
            tensors = {f"X{env}": part for env, part in enumerate(X)}
            tensors |= {f"y{env}": part for env, part in enumerate(y)}
            tensors[HEAD] = torch.cat(
                [checkpoint["1.weight"], checkpoint["1.bias"][:, None]], dim=1
            )
            write_cache(path, key, tensors)
        return KeptFeatures(job, tuple(self.benchmark.environments), path, json.dumps(key), family)

    def _keep(self, job: Job, state: Tensors) -> None:
        write_cache(self._path(_UNDER_WAY, job), self._key(job), state)

    def _read(self, kind: str, job: Job) -> Checkpoint | None:
        return read_cache(self._path(kind, job), self._key(job))

    def _path(self, kind: str, job: Job) -> Path:
        (env,), preset, device = job.test_envs, self.trainer.preset, self.trainer.device
        name = f"{job.dataset}-{env}-{job.trial_seed}-{preset.name}-{device.type}"
        return self.folder / kind / f"{name}.safetensors"

    def _key(self, job: Job) -> dict[str, Any]:
        return self._common_key | {
            "test_envs": list(job.test_envs),
            "trial_seed": job.trial_seed,
        }

    @property
    def _common_key(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "dataset": self.benchmark.name,
            "data": self.data,
            "preset": asdict(self.trainer.preset),
            "device": self.trainer.device.type,
        }


def steps_taken(kept: Tensors | None) -> int:
    """Return the steps after which the state of a training was kept, 0 if it was not."""
    return 0 if kept is None else int(kept[STEP])
