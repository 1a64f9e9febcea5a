"""Phase 1 on images: a pretrained network and a fresh head, trained on the source environments.

The network stays in evaluation mode: normalization keeps the statistics it has, while its weights
are trained with all others.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from regraft.bench.networks.featurizers import Featurizer
from regraft.bench.networks.optimizer_state import load_optimizer_state, optimizer_state
from regraft.bench.paper.batched_augmentation import change, draw_changes, whole
from regraft.bench.paper.phase1 import STEP, Checkpoint, Keep, Kept, Progress, steps_taken
from regraft.bench.paper.picture_store import Pictures
from regraft.bench.protocol.jobs import Job
from regraft.support.cuda_graphs import Recorder

SAVE_EVERY = 60.0  # seconds between checkpoints
_TELL_EVERY = 2.0  # seconds
_WAIT_EVERY = 50  # steps, for a GPU, which would fall far behind otherwise
_EMBED_ROWS_CPU, _EMBED_ROWS_GPU = 32, 256  # images embedded at once
_WEIGHTS, _OPTIMIZER = "weights.", "optimizer."


@dataclass(frozen=True)
class Recipe:
    """How Phase 1 trains. The batch is images a source and step."""

    encoder: str
    weights: str  # sha256 of the pretrained ones
    steps: int
    size: int  # pixels on each side of what the network sees
    batch: int = 32
    learning_rate: float = 5e-5

    @property
    def name(self) -> str:
        """What tells it from others of the same encoder, in letters that any file may have."""
        encoder = "".join(c if c.isalnum() or c in "._" else "_" for c in self.encoder)
        return f"{encoder}-{self.size}px-{self.steps}"


@dataclass(frozen=True)
class FineTuning:
    """What one Phase 1 sees: the pool, the training rows of each source in it, a seed."""

    pool: Pictures  # of all environments, one after another
    rows: tuple[Tensor, ...]  # on the CPU
    n_classes: int
    seed: int


def fine_tune(
    task: FineTuning,
    featurizer: Featurizer,
    recipe: Recipe,
    *,
    kept: Mapping[str, Tensor] | None = None,
    keep: Callable[[dict[str, Tensor]], None] | None = None,
    save_every: float = SAVE_EVERY,
    on_progress: Callable[[int], None] | None = None,
) -> dict[str, Tensor]:
    """Train ``Sequential(featurizer, Linear)`` and return its parameters, on the CPU.

    ``keep`` is given the state of the training every ``save_every`` seconds; from such a state,
    given as ``kept``, it goes on as if it had not been stopped. The same task gives the same bits
    on the same machine. ``on_progress`` is told the number of steps taken from time to time.
    """
    trainer = _ImageTraining(task, featurizer, recipe)
    if kept is not None:
        trainer.load_state(kept)
    device = task.pool.pixels.device
    recorder = Recorder(device) if device.type == "cuda" else None
    told = saved = time.perf_counter()
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=True):
        for done in range(steps_taken(kept) + 1, recipe.steps + 1):
            if recorder is None:
                trainer.step()
            else:
                recorder.run(None, trainer.step)
                if done % _WAIT_EVERY and done < recipe.steps:
                    continue
                torch.cuda.synchronize(device)
            now = time.perf_counter()
            if on_progress is not None and (done == recipe.steps or now - told >= _TELL_EVERY):
                on_progress(done)
                told = now
            if keep is not None and done < recipe.steps and now - saved >= save_every:
                keep(trainer.state(done))
                saved = time.perf_counter()
    return {name: value.cpu() for name, value in trainer.network.state_dict().items()}


def make_network(featurizer: Featurizer, n_features: int, n_classes: int, seed: int) -> nn.Module:
    """Copy the featurizer and add a fresh linear head, drawn with ``seed``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = nn.Linear(n_features, n_classes)
    return nn.Sequential(copy.deepcopy(featurizer.network), head).eval()


@torch.no_grad()
def embed(
    featurizer: Featurizer, checkpoint: Mapping[str, Tensor], pool: Pictures, size: int
) -> Tensor:
    """Return features (n, d) of all images in ``pool``, unchanged, float16 on the CPU.

    ``checkpoint`` has the parameters that ``fine_tune`` returns. Raises ``ValueError`` with one
    sentence if a feature is not finite as float16.
    """
    device = pool.pixels.device
    network = copy.deepcopy(featurizer.network)
    mine = {name[2:]: value for name, value in checkpoint.items() if name.startswith("0.")}
    network.load_state_dict(mine)
    network = _arranged(network, device).eval()
    normalize = _normalization(featurizer, device)
    chunks = torch.split(pool.pixels, _EMBED_ROWS_CPU if device.type == "cpu" else _EMBED_ROWS_GPU)
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=True):
        parts = [network(normalize(whole(pixels / 255, size))).half().cpu() for pixels in chunks]
    X = torch.cat(parts)
    if not torch.isfinite(X).all():
        raise ValueError(
            "the trained network gives features that are not finite, or too large for 16 bits: "
            "train it for fewer --steps, or choose another --encoder."
        )
    return X


@dataclass(frozen=True)
class ImageTrainer:
    """Trains on the images of ``pool``, on its device.

    ``sizes`` are the numbers of images by environment, in the order of the pool. The state of a
    training is kept every ``save_every`` seconds.
    """

    pool: Pictures
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


def make_pool(pictures: list[Pictures], device: torch.device) -> Pictures:
    """Put all images on ``device`` in turn, emptying ``pictures``, so that none is kept twice."""
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
    return Pictures(pixels, y.to(device), aspects)


class _ImageTraining:
    """One network in training; ``step`` can be recorded as a CUDA graph."""

    def __init__(self, task: FineTuning, featurizer: Featurizer, recipe: Recipe) -> None:
        self._pool, self._size = task.pool, recipe.size
        device = self._device = task.pool.pixels.device
        generator = torch.Generator().manual_seed(task.seed)
        shape = recipe.steps, recipe.batch
        picks = torch.cat(
            [rows[torch.randint(len(rows), shape, generator=generator)] for rows in task.rows],
            dim=1,
        )
        self._picks = picks.to(device)  # (steps, K·batch) rows of the pool
        self._changes = draw_changes(task.pool.aspects[picks], generator).to(device)
        n_features = featurizer.n_features(recipe.size)
        network = make_network(featurizer, n_features, task.n_classes, task.seed)
        self.network = _arranged(network, device)
        self._normalize = _normalization(featurizer, device)
        self._optimizer = torch.optim.Adam(
            self.network.parameters(),
            recipe.learning_rate,
            capturable=device.type == "cuda",
            fused=True,
        )
        self._done = torch.zeros(1, dtype=torch.long, device=device)

    def step(self) -> None:
        """Take one step of Adam on a fresh minibatch of every source."""
        rows = self._picks.index_select(0, self._done).squeeze(0)
        with torch.no_grad():
            pixels = self._pool.pixels.index_select(0, rows) / 255
            x = change(pixels, self._changes.select(self._done), self._size)
            x = self._normalize(x)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._device.type == "cuda"):
            logits = self.network(x)
        loss = functional.cross_entropy(logits.float(), self._pool.y[rows])
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._done += 1

    def state(self, done: int) -> dict[str, Tensor]:
        """Return all that later steps depend on, after ``done`` of them."""
        tensors = {STEP: torch.tensor(done)}
        tensors |= {f"{_WEIGHTS}{name}": value for name, value in self.network.state_dict().items()}
        kept = optimizer_state(self._optimizer)
        return tensors | {f"{_OPTIMIZER}{name}": value for name, value in kept.items()}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what ``state`` returned."""
        weights, kept = (
            {
                name.removeprefix(prefix): tensor
                for name, tensor in tensors.items()
                if name.startswith(prefix)
            }
            for prefix in (_WEIGHTS, _OPTIMIZER)
        )
        self.network.load_state_dict(weights)
        load_optimizer_state(self._optimizer, kept)
        self._done.fill_(steps_taken(tensors))


def _normalization(featurizer: Featurizer, device: torch.device) -> Callable[[Tensor], Tensor]:
    """Return what makes images (b, 3, s, s) in [0, 1] what the featurizer expects."""
    mean, deviation = (
        torch.tensor(values, device=device)[:, None, None]
        for values in (featurizer.mean, featurizer.deviation)
    )
    layout = _memory_format(device)
    return lambda x: ((x - mean) / deviation).contiguous(memory_format=layout)


def _arranged(network: nn.Module, device: torch.device) -> nn.Module:
    """Move ``network`` to ``device``, its numbers in the order that is fastest there."""
    network.to(memory_format=_memory_format(device))  # type: ignore[call-overload]
    return network.to(device)


def _memory_format(device: torch.device) -> torch.memory_format:
    # A GPU's convolutions are fastest with the channels innermost.
    return torch.channels_last if device.type == "cuda" else torch.contiguous_format
