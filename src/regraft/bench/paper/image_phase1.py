"""Phase 1 on folders of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regraft.bench.networks.featurizers import Featurizer
from regraft.bench.paper.fine_tuning import (
    SAVE_EVERY,
    FineTuning,
    Pool,
    Recipe,
    embed,
    fine_tune,
)
from regraft.bench.paper.phase1 import Checkpoint, Keep, Kept, Progress
from regraft.bench.paper.picture_store import Pictures
from regraft.bench.protocol.jobs import Job


@dataclass(frozen=True)
class ImageTrainer:
    """Trains on the images of ``pool``, on its device.

    ``sizes`` are the numbers of images by environment, in the order of the pool. The state of a
    training is kept every ``save_every`` seconds.
    """

    pool: Pool
    sizes: tuple[int, ...]
    n_classes: int
    featurizer: Featurizer
    preset: Recipe
    save_every: float = SAVE_EVERY
    is_parallel = False

    @property
    def device(self) -> torch.device:
        """The pool's."""
        return self.pool.pixels.device

    def train(
        self, jobs: Sequence[Job], kept: Kept, keep: Keep, on_progress: Progress
    ) -> list[Checkpoint]:
        """Train the one job to the end, from the state kept of it if there is one."""
        (job,), (state,) = jobs, kept
        checkpoint = fine_tune(
            self.task(job),
            self.featurizer,
            self.preset,
            kept=state,
            keep=lambda tensors: keep(job, tensors),
            save_every=self.save_every,
            on_progress=on_progress,
        )
        return [checkpoint]

    def embed(self, job: Job, checkpoint: Checkpoint) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """Return features and labels of every environment."""
        X = embed(self.featurizer, checkpoint, self.pool, self.preset.size)
        sizes = list(self.sizes)
        return torch.split(X, sizes), torch.split(self.pool.y.cpu(), sizes)

    def task(self, job: Job) -> FineTuning:
        """Return what the training of ``job`` sees."""
        rows = tuple(
            sum(self.sizes[:env]) + job.split(env, size)[0]
            for env, size in enumerate(self.sizes)
            if env not in job.test_envs
        )
        return FineTuning(self.pool, rows, self.n_classes, job.seed)


def make_pool(pictures: list[Pictures], device: torch.device) -> Pool:
    """Put all images on ``device``, one environment of ``pictures`` after another.

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
