"""Phase 1 on folders of images: every training and its features are made once and kept in files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regraft.bench.networks.featurizers import Featurizer
from regraft.bench.paper.benchmark import Benchmark
from regraft.bench.paper.fine_tuning import (
    SAVE_EVERY,
    FineTuning,
    Pool,
    Recipe,
    embed,
    fine_tune,
    steps_taken,
)
from regraft.bench.paper.phase1 import Checkpoint, Job, cached_features
from regraft.bench.paper.picture_store import Pictures
from regraft.bench.paper.refinement import Features
from regraft.bench.protocol.cache import read_cache, write_cache
from regraft.support.files import remove_unfinished
from regraft.support.progress import Countdown

# Raised by hand when the code changes what a training gives, so that old caches do not answer.
FORMAT = 1
_KINDS = _CHECKPOINTS, _FEATURES, _UNDER_WAY = "phase1", "features", "under-way"


@dataclass(frozen=True)
class ImagePhaseOne:
    """Trains on the images of ``pool`` and keeps what it makes in ``folder``.

    ``sizes`` are the numbers of images by environment, in the order of the pool, on whose device
    it trains. A training under way is kept too, every ``save_every`` seconds.
    """

    benchmark: Benchmark
    pool: Pool
    sizes: tuple[int, ...]
    fingerprint: str
    featurizer: Featurizer
    recipe: Recipe
    folder: Path
    save_every: float = SAVE_EVERY

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
        begun = {job: read_cache(self._path(_UNDER_WAY, job), self._key(job)) for job in missing}
        done = sum(map(steps_taken, begun.values()))
        countdown = Countdown("Phase 1, steps", len(missing) * self.recipe.steps, done)
        for job in missing:
            done -= steps_taken(begun[job])

            def tell(steps: int, before: int = done) -> None:
                on_progress(countdown.advance(before + steps))

            found[job] = self._train(job, begun.pop(job), tell)
            done += self.recipe.steps
        return found

    def features(self, job: Job, checkpoint: Checkpoint) -> Features:
        """What Phase 2 sees of a job, after computing what is missing or damaged."""
        path, key = self._path(_FEATURES, job), self._key(job)
        return cached_features(path, key, job, checkpoint, lambda: self._embed(checkpoint))

    def _embed(self, checkpoint: Checkpoint) -> dict[str, Tensor]:
        """X0, X1, … and y0, y1, … of all environments."""
        X = embed(self.featurizer, checkpoint, self.pool, self.recipe.size)
        return {
            f"{name}{env}": part
            for name, whole in (("X", X), ("y", self.pool.y.cpu()))
            for env, part in enumerate(torch.split(whole, list(self.sizes)))
        }

    def _train(
        self, job: Job, kept: Mapping[str, Tensor] | None, on_progress: Callable[[int], None]
    ) -> Checkpoint:
        """Train to the end, from the state ``kept`` of it if there is one."""
        under_way = self._path(_UNDER_WAY, job)

        def keep(state: dict[str, Tensor]) -> None:
            write_cache(under_way, self._key(job), state)

        checkpoint = fine_tune(
            self._task(job),
            self.featurizer,
            self.recipe,
            kept=kept,
            keep=keep,
            save_every=self.save_every,
            on_progress=on_progress,
        )
        write_cache(self._path(_CHECKPOINTS, job), self._key(job), checkpoint)
        under_way.unlink(missing_ok=True)
        return checkpoint

    def _task(self, job: Job) -> FineTuning:
        rows = tuple(
            sum(self.sizes[:env]) + job.split(env, size)[0]
            for env, size in enumerate(self.sizes)
            if env != job.test_env
        )
        return FineTuning(self.pool, rows, self.benchmark.n_classes, job.seed)

    @property
    def _device(self) -> str:
        return self.pool.pixels.device.type

    def _path(self, kind: str, job: Job) -> Path:
        name = f"{job.dataset}-{job.test_env}-{job.trial}-{self.recipe.name}-{self._device}"
        return self.folder / kind / f"{name}.safetensors"

    def _key(self, job: Job) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "dataset": job.dataset,
            "data": self.fingerprint,
            "test_envs": [job.test_env],
            "trial_seed": job.trial,
            "recipe": asdict(self.recipe),
            "device": self._device,
        }


def make_pool(pictures: list[Pictures], device: torch.device) -> Pool:
    """All images on ``device``, one environment of ``pictures`` after another.

    The list is emptied meanwhile, so that the pixels are not in memory twice.
    """
    y, aspects = (
        torch.cat([getattr(each, name) for each in pictures]) for name in ("y", "aspects")
    )
    shape = pictures[0].pixels.shape[1:]
    pixels = torch.empty((len(y), *shape), dtype=torch.uint8, device=device)
    first = 0
    while pictures:
        part = pictures.pop(0).pixels
        pixels[first : first + len(part)] = part
        first += len(part)
    return Pool(pixels, y.to(device), aspects)
