"""What a job sees: its environments, their parts, and the minibatches of every step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from regraft.bench.datasets import Dataset
from regraft.bench.protocol.evaluation import Split, parts
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.seeds import seed_hash
from regraft.bench.protocol.settings import ADAPTATION
from regraft.support.prefetch import ahead

Minibatches = tuple[Tensor, Tensor, Tensor | None]


class JobData:
    """The data of one job on one device."""

    def __init__(
        self, job: Job, dataset: Dataset, hparams: Mapping[str, Any], device: torch.device
    ) -> None:
        self._job, self._hparams, self._device = job, hparams, device
        drawn = dataset.environments(job.seed, device)
        halves = [job.split(i, len(env)) for i, env in enumerate(drawn)]
        for name, half in zip(dataset.env_names, halves, strict=True):
            if not all(map(len, half)):
                raise ValueError(
                    f"{dataset.name}'s domain {name} has {sum(map(len, half))} rows, of which a "
                    f"holdout_fraction of {job.holdout_fraction} leaves none on one side: choose "
                    "another or add rows."
                )
        unlabelled = {}
        for i in job.test_envs:
            rows_in, unlabelled[i] = job.split_off_unlabelled(i, halves[i][0])
            halves[i] = rows_in, halves[i][1]
            if not len(rows_in) or (job.task == ADAPTATION and not len(unlabelled[i])):
                raise ValueError(
                    f"{dataset.name}'s domain {dataset.env_names[i]} has too few rows for a "
                    f"uda_holdout_fraction of {job.uda_holdout_fraction}: choose another."
                )
        self._unlabelled = unlabelled if job.task == ADAPTATION else {}
        self._sources = [i for i in range(len(drawn)) if i not in job.test_envs]
        self._rows_in = {i: halves[i][0] for i in self._sources}
        self.environments = dataset.prepare(drawn, self._rows_in)
        self.splits = [
            Split(i, name, rows.to(device))
            for i, half in enumerate(halves)
            for name, rows in zip(("in", "out"), half, strict=True)
        ] + [Split(i, "uda", rows.to(device)) for i, rows in unlabelled.items() if len(rows)]
        self._fewest = min(len(rows) for rows, _ in halves)
        self.is_in_memory = all(environment.is_in_memory for environment in self.environments)
        self._augments = not self.is_in_memory and hparams["data_augmentation"]

    @property
    def cut_off(self) -> int:
        """How many images read so far end too early."""
        return sum(environment.cut_off for environment in self.environments)

    def epoch(self, step: int) -> float:
        """Return how often the smallest environment has been seen after ``step``."""
        return step / (self._fewest / self._hparams["batch_size"]) if step else 0.0

    def draw_batches(self, steps: int, first: int) -> None:
        """Draw the rows of all ``steps``, to be taken from the step ``first`` on."""
        generator = torch.Generator().manual_seed(seed_hash(self._job.seed, "minibatches"))
        picks = [self._rows_in[i][self._draw(i, steps, generator)] for i in self._sources]
        generator.manual_seed(seed_hash(self._job.seed, "unlabelled"))
        size = self._hparams["batch_size"]
        for rows in self._unlabelled.values():
            picks.append(rows[torch.randint(len(rows), (steps, size), generator=generator)])
        self._picks = torch.stack(picks, dim=1).to(self._device)  # (steps, K and more, b)
        # The count is kept on the device, for a recorded step knows no other.
        self._taken = torch.tensor([first], device=self._device)
        self._coming = ahead(self._load(step, self._picks[step]) for step in range(first, steps))

    def minibatches(self, step: int) -> Minibatches:
        """Return inputs (K, b, ...) and labels (K, b) of ``step``, the next of those drawn.

        Third are inputs without labels, of every domain to adapt to; None if there is none.
        """
        if not self.is_in_memory:
            return next(self._coming)
        rows = self._picks.index_select(0, self._taken).squeeze(0)
        self._taken += 1
        return self._load(step, rows)

    def first_inputs(self, n: int) -> Iterator[Tensor]:
        """Yield the inputs (K·b, ...) of the first ``n`` minibatches, of as many as there are."""
        for step, rows in enumerate(self._picks[:n]):
            yield self._load(step, rows)[0].flatten(0, 1)

    def _load(self, step: int, rows: Tensor) -> Minibatches:
        xs, ys, others = [], [], []
        for i, some in zip(self._unlabelled, rows[len(self._sources) :], strict=True):
            others.append(self.environments[i].inputs(some))
        for i, some in zip(self._sources, rows, strict=False):
            seed = seed_hash(self._job.seed, step, i) if self._augments else None
            xs.append(self.environments[i].inputs(some, seed))
            ys.append(self.environments[i].y[some])
        return torch.stack(xs), torch.stack(ys), torch.stack(others) if others else None

    def sources(self) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield all training rows, some at a time."""
        for domain, i in enumerate(self._sources):
            for x, y in parts(self.environments[i], self._rows_in[i].to(self._device)):
                yield domain, x, y

    def evaluation_seeds(self, step: int) -> dict[int, int]:
        """Seed the random changes with which DomainBed evaluates what it trains on, a fault."""
        if not self._augments:
            return {}
        return {i: seed_hash(self._job.seed, step, i, "evaluation") for i in self._sources}

    def _draw(self, env: int, steps: int, generator: torch.Generator) -> Tensor:
        """Draw positions (steps, b) among the training rows of an environment, with replacement."""
        n, size = len(self._rows_in[env]), self._hparams["batch_size"]
        if not self._hparams["class_balanced"]:
            return torch.randint(n, (steps, size), generator=generator)
        y = self.environments[env].y.cpu()[self._rows_in[env]]
        weights = 1 / torch.bincount(y)[y]
        drawn = torch.multinomial(weights, steps * size, True, generator=generator)
        return drawn.view(steps, size)
