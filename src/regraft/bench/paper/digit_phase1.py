"""Phase 1 on the coloured digits of MNIST."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regraft.bench.datasets.colored_mnist import ColouredDigits, make_environments
from regraft.bench.paper.phase1 import Checkpoint, Keep, Kept, Progress
from regraft.bench.paper.pretraining import Preset, Pretraining, embed, pretrain
from regraft.bench.protocol.jobs import Job
from regraft.encoders.mnist_cnn import N_FEATURES, mnist_cnn
from regraft.support.digests import digest_parts

_CLASSES = 2


@dataclass(frozen=True)
class DigitTrainer:
    """Trains on ``images`` (n, 28, 28) of ``digits`` (n,), which every job colours anew."""

    images: NDArray[np.uint8]
    digits: NDArray[np.uint8]
    preset: Preset
    device: torch.device

    @property
    def is_parallel(self) -> bool:
        """Whether trainings run side by side: on a GPU."""
        return self.device.type == "cuda"

    def train(
        self, jobs: Sequence[Job], kept: Kept, keep: Keep, on_progress: Progress
    ) -> list[Checkpoint]:
        """Train from the beginning; it takes too short a time for states to be kept."""
        tasks = [self._task(job) for job in jobs]
        networks = pretrain(tasks, self.preset, _CLASSES, self.device, on_progress)
        return [
            {name: value.cpu() for name, value in network.state_dict().items()}
            for network in networks
        ]

    def embed(self, job: Job, checkpoint: Checkpoint) -> tuple[list[Tensor], list[Tensor]]:
        """Return features and labels of every environment."""
        with torch.device("meta"):  # no weights are drawn, for they are replaced at once
            network = nn.Sequential(mnist_cnn(), nn.Linear(N_FEATURES, _CLASSES))
        network.load_state_dict(checkpoint, assign=True)
        featurizer = network[0].to(self.device)
        environments = self._environments(job)
        X = [embed(featurizer, environment.to(self.device)) for environment in environments]
        return X, [environment.y for environment in environments]

    def _task(self, job: Job) -> Pretraining:
        environments = self._environments(job)
        sources = [env for env in range(len(environments)) if env not in job.test_envs]
        return Pretraining(
            sources=tuple(environments[env] for env in sources),
            rows=tuple(job.split(env, len(environments[env]))[0] for env in sources),
            seed=job.seed,
        )

    def _environments(self, job: Job) -> tuple[ColouredDigits, ...]:
        return make_environments(self.images, self.digits, job.seed)


def fingerprint(images: NDArray[np.uint8], digits: NDArray[np.uint8]) -> str:
    """Compute the checksum of the pixels and the digits."""
    return digest_parts(np.ascontiguousarray(array).data for array in (images, digits))
