"""Phase 1 of a sweep: every training and its features are made once and kept in files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regraft.bench.datasets.colours import Environment, make_environments, split
from regraft.bench.paper.pretraining import Preset, Pretraining, embed, pretrain
from regraft.bench.paper.refinement import Features
from regraft.bench.protocol.cache import read_cache, write_cache
from regraft.bench.protocol.seeds import job_seed, split_seed
from regraft.encoders.mnist_cnn import N_FEATURES, mnist_cnn
from regraft.support.files import remove_unfinished
from regraft.support.progress import Countdown

DATASET = "ColoredMNIST"
ALGORITHM = "CRO"
# Raised by hand when the code changes what a training gives, so that old caches do not answer.
FORMAT = 1
_CLASSES = 2
_KINDS = _CHECKPOINTS, _FEATURES = "phase1", "features"

Checkpoint = dict[str, Tensor]


@dataclass(frozen=True)
class Job:
    """One held-out environment in one trial: the data and the training of all configurations."""

    test_env: int
    trial: int
    dataset: str = DATASET

    @property
    def seed(self) -> int:
        """The seed of the data, of the initial weights and of the minibatches."""
        # DomainBed draws the data anew for every configuration. Those that share a Phase 1
        # cannot: rows it was trained on would come into their validation split. So all take the
        # data of the default configuration.
        return job_seed(self.dataset, ALGORITHM, [self.test_env], 0, self.trial)

    def split(self, env: int, n: int) -> tuple[Tensor, Tensor]:
        """The rows of an environment of ``n`` that may be trained on, and those held out."""
        return split(n, split_seed(self.trial, env))


@dataclass(frozen=True)
class PhaseOne:
    """Trains on ``images`` (n, 28, 28) of ``digits`` (n,) and keeps what it makes in ``folder``."""

    images: NDArray[np.uint8]
    digits: NDArray[np.uint8]
    fingerprint: str
    preset: Preset
    device: torch.device
    folder: Path

    def remove_unfinished(self) -> None:
        """Remove what killed processes left in the folder, in which no other may be at work."""
        for kind in _KINDS:
            remove_unfinished(self.folder / kind)

    def checkpoints(
        self, jobs: Sequence[Job], on_progress: Callable[[str], None]
    ) -> dict[Job, Checkpoint]:
        """The trained parameters of every job, after training what is missing or damaged."""
        kept = {job: read_cache(self._path(_CHECKPOINTS, job), self._key(job)) for job in jobs}
        found = {job: checkpoint for job, checkpoint in kept.items() if checkpoint is not None}
        missing = [job for job in jobs if job not in found]
        countdown = Countdown("Phase 1, steps", len(missing) * self.preset.steps)
        # A GPU trains all side by side. A CPU would gain nothing, and a kill would lose them all.
        together = max(1, len(missing)) if self.device.type == "cuda" else 1
        for first in range(0, len(missing), together):
            group = missing[first : first + together]
            before, size = first * self.preset.steps, len(group)

            def tell(steps: int, before: int = before, size: int = size) -> None:
                on_progress(countdown.advance(before + size * steps))

            inputs = [self._pretraining(job) for job in group]
            networks = pretrain(inputs, self.preset, _CLASSES, self.device, tell)
            for job, network in zip(group, networks, strict=True):
                found[job] = {name: value.cpu() for name, value in network.state_dict().items()}
                write_cache(self._path(_CHECKPOINTS, job), self._key(job), found[job])
        return found

    def features(self, job: Job, checkpoint: Checkpoint) -> Features:
        """What Phase 2 sees of a job, after computing what is missing or damaged."""
        path, key = self._path(_FEATURES, job), self._key(job)
        return cached_features(path, key, job, checkpoint, lambda: self._embed(job, checkpoint))

    def _pretraining(self, job: Job) -> Pretraining:
        environments = self._environments(job)
        sources = [env for env in range(len(environments)) if env != job.test_env]
        return Pretraining(
            sources=tuple(environments[env] for env in sources),
            rows=tuple(job.split(env, len(environments[env]))[0] for env in sources),
            seed=job.seed,
        )

    def _embed(self, job: Job, checkpoint: Checkpoint) -> dict[str, Tensor]:
        """X0, X1, … and y0, y1, … of all environments."""
        with torch.device("meta"):  # no weights are drawn, for they are replaced at once
            network = nn.Sequential(mnist_cnn(), nn.Linear(N_FEATURES, _CLASSES))
        network.load_state_dict(checkpoint, assign=True)
        featurizer = network[0].to(self.device)
        tensors = {}
        for env, environment in enumerate(self._environments(job)):
            tensors[f"X{env}"] = embed(featurizer, environment.to(self.device))
            tensors[f"y{env}"] = environment.y
        return tensors

    def _environments(self, job: Job) -> tuple[Environment, ...]:
        return make_environments(self.images, self.digits, job.seed)

    def _path(self, kind: str, job: Job) -> Path:
        name = f"{DATASET}-{job.test_env}-{job.trial}-{self.preset.name}-{self.device.type}"
        return self.folder / kind / f"{name}.safetensors"

    def _key(self, job: Job) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "dataset": DATASET,
            "data": self.fingerprint,
            "test_envs": [job.test_env],
            "trial_seed": job.trial,
            "preset": asdict(self.preset),
            "device": self.device.type,
        }


def fingerprint(images: NDArray[np.uint8], digits: NDArray[np.uint8]) -> str:
    """sha256 over the pixels and the digits."""
    digest = hashlib.sha256(np.ascontiguousarray(images).data)
    digest.update(np.ascontiguousarray(digits).data)
    return digest.hexdigest()


def cached_features(
    path: Path,
    key: Mapping[str, Any],
    job: Job,
    checkpoint: Checkpoint,
    compute: Callable[[], dict[str, Tensor]],
) -> Features:
    """What Phase 2 sees of a job: kept in the file ``path``, computed if missing or damaged.

    ``compute`` gives X0, X1, … and y0, y1, … of all environments; ``key`` says what the
    checkpoint was trained on.
    """
    # A checkpoint trained again elsewhere may differ: its features must not be the old ones.
    whole_key = {**key, "checkpoint": _digest(checkpoint)}
    kept = read_cache(path, whole_key)
    if kept is None:
        kept = compute()
        write_cache(path, whole_key, kept)
    return _make_features(job, checkpoint, kept)


def _digest(checkpoint: Checkpoint) -> str:
    """sha256 over the parameters of a ``checkpoint``."""
    total = hashlib.sha256()
    for _, tensor in sorted(checkpoint.items()):
        total.update(tensor.contiguous().numpy().data)
    return total.hexdigest()


def _make_features(job: Job, checkpoint: Checkpoint, tensors: Mapping[str, Tensor]) -> Features:
    """What Phase 2 sees of a job, from X0, X1, … and y0, y1, … of all environments."""
    envs = range(len(tensors) // 2)
    splits = [job.split(env, len(tensors[f"y{env}"])) for env in envs]
    return Features(
        X=tuple(tensors[f"X{env}"] for env in envs),
        y=tuple(tensors[f"y{env}"] for env in envs),
        rows_in=tuple(rows for rows, _ in splits),
        rows_out=tuple(rows for _, rows in splits),
        head=torch.cat([checkpoint["1.weight"], checkpoint["1.bias"][:, None]], dim=1),
        test_env=job.test_env,
    )
