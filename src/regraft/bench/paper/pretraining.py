"""Phase 1 on coloured digits: empirical risk minimization of featurizer and head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.adam import adam

from regraft.bench.datasets.colored_mnist import ColouredDigits, make_environments
from regraft.bench.networks.fused import fuse
from regraft.bench.paper.phase1 import Checkpoint, Keep, Kept, Progress
from regraft.bench.protocol.jobs import Job
from regraft.encoders.mnist_cnn import N_FEATURES, mnist_cnn
from regraft.support.cuda_graphs import repeat
from regraft.support.digests import digest_parts

IMAGE_SIZE = 28
_CLASSES = 2
# What torch.optim.Adam takes by default.
_ADAM: dict[str, Any] = {
    "beta1": 0.9,
    "beta2": 0.999,
    "eps": 1e-8,
    "weight_decay": 0.0,
    "amsgrad": False,
    "maximize": False,
}
# Rows embedded at once: a processor is twice as fast when a layer's output fits its cache.
_EMBED_ROWS_CPU, _EMBED_ROWS_GPU = 200, 2000


@dataclass(frozen=True)
class Preset:
    """How Phase 1 trains. The batch is rows a source and step."""

    name: str
    steps: int
    batch: int
    learning_rate: float = 1e-3
    shift: float = 0.0  # images move by up to this many pixels
    rotation: float = 0.0  # turn by up to this many radians
    scale: float = 0.0  # grow or shrink, in each direction, by up to this share
    shear: float = 0.0  # and slant by up to this slope
    average: float = 0.0  # decay of the moving average of the weights; 0 takes the last ones

    @property
    def warps(self) -> bool:
        """Whether images are moved, turned, stretched or slanted."""
        return any((self.shift, self.rotation, self.scale, self.shear))


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("paper", steps=500, batch=64),
        Preset(
            "best",
            steps=6000,
            batch=128,
            shift=3.0,
            rotation=0.5,
            scale=0.2,
            shear=0.2,
            average=0.999,
        ),
    )
}


@dataclass(frozen=True)
class Pretraining:
    """What one Phase 1 sees: the source environments, their training rows, a seed."""

    sources: tuple[ColouredDigits, ...]
    rows: tuple[Tensor, ...]  # of each source, those that may be trained on
    seed: int


def pretrain(
    jobs: Sequence[Pretraining],
    preset: Preset,
    device: torch.device,
    on_progress: Callable[[int], None] = lambda _: None,
) -> list[nn.Sequential]:
    """Train one network, ``Sequential(featurizer, Linear)``, for each job.

    On a GPU the jobs run side by side. Each network is the same, bit by bit, on every repetition
    on the same machine, and whatever other jobs it is trained along with.
    """
    trainings = [_DigitTraining(job, preset, device) for job in jobs]
    # Elsewhere one after the other keeps a network's weights in the processor's cache.
    groups = [trainings] if device.type == "cuda" else [[training] for training in trainings]
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=True):
        for i, group in enumerate(groups):

            def tell(steps: int, before: int = i * preset.steps) -> None:
                on_progress((before + steps) // len(groups))

            repeat([training.step for training in group], preset.steps, device, tell)
    return [training.result() for training in trainings]


@torch.no_grad()
def embed(featurizer: nn.Module, environment: ColouredDigits) -> Tensor:
    """Return features (n, 128) of all rows of ``environment``, float16 on the CPU."""
    device = environment.images.device
    size = _EMBED_ROWS_CPU if device.type == "cpu" else _EMBED_ROWS_GPU
    rows = torch.split(torch.arange(len(environment), device=device), size)
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=True):
        return torch.cat([featurizer(environment.inputs(r)).half().cpu() for r in rows])


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
        networks = pretrain(tasks, self.preset, self.device, on_progress)
        return [
            {name: value.cpu() for name, value in network.state_dict().items()}
            for network in networks
        ]

    def embed(self, job: Job, checkpoint: Checkpoint) -> tuple[list[Tensor], list[Tensor]]:
        """Return features and labels of every environment."""
        with torch.device("meta"):  # no weights are drawn, for they are replaced at once
            network = _make_network()
        network.load_state_dict(checkpoint, assign=True)
        featurizer = _fuse(network[0].to(self.device))
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


class _DigitTraining:
    """One network in training; ``step`` can be recorded as a CUDA graph."""

    def __init__(self, job: Pretraining, preset: Preset, device: torch.device) -> None:
        self._preset = preset
        generator = torch.Generator().manual_seed(job.seed)
        sizes = [len(rows) for rows in job.rows]
        offsets = [sum(len(s) for s in job.sources[:i]) for i in range(len(job.sources))]
        picks = [
            offset + rows.cpu()[torch.randint(n, (preset.steps, preset.batch), generator=generator)]
            for rows, n, offset in zip(job.rows, sizes, offsets, strict=True)
        ]
        self._picks = torch.cat(picks, dim=1).to(device)  # (steps, K·batch) rows of the pool
        self._warps = None  # (steps, K·batch, 2, 3): the affine map of each image
        if preset.warps:
            draws = 2 * torch.rand((6, *self._picks.shape), generator=generator) - 1
            self._warps = _warps(preset, draws).to(device)
        self._pool = ColouredDigits(
            *(
                torch.cat([getattr(s, name) for s in job.sources]).to(device)
                for name in ("images", "y", "colour")
            )
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.seed)
            self._network = _make_network()
        self._network.to(device)
        self._predict = nn.Sequential(_fuse(self._network[0]), self._network[1])
        self._parameters: list[Tensor] = list(self._network.parameters())
        self._average = [p.detach().clone() for p in self._parameters]
        self._means = [torch.zeros_like(p) for p in self._parameters]  # of the gradients
        self._squares = [torch.zeros_like(p) for p in self._parameters]
        self._counts = [torch.zeros((), device=device) for _ in self._parameters]
        self._done = torch.zeros(1, dtype=torch.long, device=device)

    def step(self) -> None:
        """Take one step of Adam on a fresh minibatch of every source."""
        rows = self._picks.index_select(0, self._done).squeeze(0)
        x = self._pool.inputs(rows)
        if self._warps is not None:
            x = _warp(x, self._warps.index_select(0, self._done).squeeze(0))
        loss = functional.cross_entropy(self._predict(x), self._pool.y[rows])
        for parameter in self._parameters:
            parameter.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            # An object torch.optim.Adam would take the same step, after long imports.
            adam(
                self._parameters,
                [p.grad for p in self._parameters if p.grad is not None],
                exp_avgs=self._means,
                exp_avg_sqs=self._squares,
                max_exp_avg_sqs=[],
                state_steps=self._counts,
                lr=self._preset.learning_rate,
                **_ADAM,
                fused=True,
                capturable=loss.is_cuda,
            )
        if self._preset.average:
            with torch.no_grad():
                torch._foreach_lerp_(self._average, self._parameters, 1 - self._preset.average)
        self._done += 1

    def result(self) -> nn.Sequential:
        """Return the trained network, in evaluation mode."""
        if self._preset.average:
            with torch.no_grad():
                torch._foreach_copy_(self._parameters, self._average)
        return self._network.eval()


def _warps(preset: Preset, draws: Tensor) -> Tensor:
    """Make affine maps (..., 2, 3), in grid coordinates, of six draws (6, ...) in [-1, 1]."""
    angle, shear = preset.rotation * draws[0], preset.shear * draws[1]
    across, down = 1 + preset.scale * draws[2], 1 + preset.scale * draws[3]
    shift = preset.shift * draws[4:] * 2 / IMAGE_SIZE  # the grid spans [-1, 1]
    cos, sin = angle.cos(), angle.sin()
    first = torch.stack([across * cos, shear - across * sin, shift[0]], dim=-1)
    second = torch.stack([down * sin, down * cos, shift[1]], dim=-1)
    return torch.stack([first, second], dim=-2)


def _warp(x: Tensor, maps: Tensor) -> Tensor:
    """Resample images (b, c, h, w), each along its affine map (b, 2, 3)."""
    grid = functional.affine_grid(maps, list(x.shape), align_corners=False)
    return functional.grid_sample(x, grid, align_corners=False)


def _fuse(featurizer: nn.Module) -> nn.Module:
    """Return the same featurizer, as fast as a GPU can be."""
    assert isinstance(featurizer, nn.Sequential)
    if next(featurizer.parameters()).is_cuda:
        featurizer.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return fuse(featurizer, in_half=True)


def _make_network() -> nn.Sequential:
    return nn.Sequential(mnist_cnn(), nn.Linear(N_FEATURES, _CLASSES))
