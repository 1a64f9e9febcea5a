"""One run of the protocol, resumable after any step, and many side by side on a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regraft.bench.datasets import Dataset
from regraft.bench.protocol.evaluation import accuracies, count_correct, mean_loss, risks
from regraft.bench.protocol.job_data import JobData
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.models import describe_model, make_algorithm, model_tensors
from regraft.bench.protocol.run_folder import RunFolder
from regraft.bench.protocol.step_clock import StepClock
from regraft.bench.protocol.swad import N_BATCHES, ValleyAverage, renew_statistics
from regraft.support.cuda_graphs import Recorder

Record = dict[str, Any]
SAVE_EVERY = 60.0  # seconds between checkpoints
_SUM, _TIMES = "log.sum.", "log.times."


class Training:
    """A job under way in its folder, which must be claimed: made anew, it goes on from there.

    ``advance`` takes one step and evaluates where one is due, without waiting for the device;
    ``settle`` then waits and writes what was evaluated. On a GPU steps on data in its memory are
    recorded and replayed unless ``recorded`` is False; the records are the same. ``keep_model``
    keeps the model of the last evaluation, ``keep_every`` those of all; ``weights`` is the file
    that a job with weights starts from. A record's ``step_time`` is the mean time of its steps
    alone; ``seconds`` are all since the record before.
    """

    def __init__(
        self,
        job: Job,
        dataset: Dataset,
        folder: RunFolder,
        *,
        device: torch.device,
        save_every: float = SAVE_EVERY,
        keep_model: bool = False,
        keep_every: bool = False,
        weights: Path | None = None,
        recorded: bool = True,
    ) -> None:
        self.job, self._folder, self._dataset = job, folder, dataset
        self._save_every = save_every
        self._keep_model, self._keep_every = keep_model or keep_every, keep_every
        self._hparams = job.configuration(dataset)
        self._data = JobData(job, dataset, self._hparams, device)
        self._algorithm = make_algorithm(job, dataset, self._hparams, device, weights)
        every = job.checkpoint_freq or dataset.checkpoint_freq
        schedule = self._algorithm.schedule(job.steps or dataset.steps, every)
        self._schedule, self._last = frozenset(schedule), schedule[-1]
        self._average = ValleyAverage() if job.swad and self._algorithm.has_steps else None
        if self._average is not None:  # there is one network to evaluate, at the end
            self._schedule = frozenset([self._last])
            self._judged = frozenset([*range(0, self._last, every), self._last])
        resumed = folder.resume()
        self._log = _Log()
        if resumed is not None:
            tensors = self._log.load_state(resumed[1], device)
            if self._average is not None:
                tensors = self._average.load_state(tensors, device)
            self._algorithm.load_state(tensors)
        self._next = 0 if resumed is None else resumed[0] + 1
        if self._algorithm.has_steps:
            self._data.draw_batches(self._last + 1, self._next)
        can_record = self._algorithm.has_steps and self._data.is_in_memory
        can_record = can_record and self._algorithm.is_recordable
        is_recorded = recorded and device.type == "cuda" and can_record
        self._recorder = Recorder(device, self._algorithm.generator) if is_recorded else None
        self._device = device
        self._counts: Tensor | None = None
        self._clock = StepClock(device)
        self._written = self._saved = time.perf_counter()  # the last record, and checkpoint

    @property
    def is_finished(self) -> bool:
        """Whether the last step is taken and settled."""
        return self._next > self._last and self._counts is None

    def advance(self) -> None:
        """Take the next step; after the last one and at the schedule's, evaluate."""
        step = self._next
        if not self._clock.is_running:
            with self._place():
                self._clock.start()
        if self._recorder is None:
            self._step(step)
        else:
            self._recorder.run(self._algorithm.variant(step), lambda: self._step(step))
        self._log.count(self._algorithm.variant(step))
        self._next += 1
        if self._average is not None:
            with self._place():
                self._extend_average(self._average, step)
        if step not in self._schedule:
            return
        with self._place():
            self._clock.stop()
            if step == self._last:
                if self._average is not None:
                    self._take_average(self._average)
                self._algorithm.conclude(self._data.sources())
            self._counts = count_correct(
                self._algorithm,
                self._data.environments,
                self._data.splits,
                self._data.evaluation_seeds(step) if self.job.compat else {},
            )

    def settle(self) -> Record | None:
        """Write the record of the evaluation just made and return it; None if there is none."""
        if self._counts is not None:
            with self._place():
                return self._write(self._counts)
        self._save()
        return None

    def _write(self, counts: Tensor) -> Record:
        shares = accuracies(counts, self._data.splits)
        on_the_way = len(shares) > 1
        self._counts, step = None, self._next - 1
        means, steps = self._log.take()
        record = {
            "step": step,
            "epoch": self._data.epoch(step),
            **means,
            "step_time": self._clock.take() / steps,
            "seconds": time.perf_counter() - self._written,
            **shares[-1],
            **({"checkpoints": risks(shares, self.job.test_envs)} if on_the_way else {}),
            **self._algorithm.summary(),
            **({} if self._average is None else self._average.summary()),
            **({"cut_off_images": cut_off} if (cut_off := self._data.cut_off) else {}),
            "mem_gb": _memory(self._device),
            "hparams": self._hparams,
            "args": {**self.job.args, "output_dir": self.job.id},
            "env_names": list(self._dataset.env_names),
            "device": self._device.type,
        }
        self._folder.append(record)
        units = self._data.environments[0].units
        description = describe_model(self.job, self._dataset, self._hparams)
        if self._keep_every:
            self._folder.keep(model_tensors(self._algorithm, units), description, step)
        if step == self._last:
            model = model_tensors(self._algorithm, units) if self._keep_model else None
            self._folder.finish(model, description)
        else:
            self._save()
        self._written = time.perf_counter()
        return record

    def _save(self) -> None:
        """Keep the state now and then."""
        if time.perf_counter() - self._saved < self._save_every:
            return
        with self._place():
            self._clock.stop()
            if state := self._algorithm.state():  # else a run that is stopped starts over
                state |= self._log.state()
                if self._average is not None:
                    state |= self._average.state()
                self._folder.save(self._next - 1, state)
        self._saved = time.perf_counter()

    def _extend_average(self, average: ValleyAverage, step: int) -> None:
        average.add(step, self._algorithm.state_dict())
        if step in self._judged:
            self._clock.stop()
            data = self._data
            sources = [
                split
                for split in data.splits
                if split.name == "out" and split.env not in self.job.test_envs
            ]
            average.judge(mean_loss(self._algorithm, data.environments, sources))

    def _take_average(self, average: ValleyAverage) -> None:
        """Put the averaged weights, if there are any, in place of the last ones."""
        weights = average.finish()
        if weights is not None:
            self._algorithm.load_state_dict(weights)
            renew_statistics(self._algorithm, self._data.first_inputs(N_BATCHES))

    def _place(self) -> AbstractContextManager[Any]:
        """Return the context in which work follows the steps taken so far."""
        return self._recorder.stream() if self._recorder else nullcontext()

    def _step(self, step: int) -> None:
        if not self._algorithm.has_steps:
            return
        x, y, unlabelled = self._data.minibatches(step)
        if unlabelled is None:
            values = self._algorithm.update(step, x, y)
        else:
            values = self._algorithm.update_adapting(step, x, y, unlabelled)
        self._log.add(self._algorithm.variant(step), values)


class _Log:
    """Sums of what steps return, kept on the device, and how many steps there were."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._names: dict[Hashable, tuple[str, ...]] = {}
        self._counts: dict[Hashable, int] = {}
        self._before: dict[str, int] = {}  # the steps with a value before the run was resumed

    def add(self, variant: Hashable, values: dict[str, Tensor]) -> None:
        """Add what a step of ``variant`` returned."""
        self._names[variant] = tuple(values)
        for name, value in values.items():
            if name not in self._sums:
                self._sums[name] = torch.zeros_like(value)
            self._sums[name] += value

    def count(self, variant: Hashable) -> None:
        """Count a step of ``variant``, perhaps replayed."""
        self._counts[variant] = self._counts.get(variant, 0) + 1

    def take(self) -> tuple[dict[str, float], int]:
        """Return the mean of every value over its steps, and the steps; start over."""
        means = {
            name: float(total) / n for name, total in self._sums.items() if (n := self._times(name))
        }
        for total in self._sums.values():
            total.zero_()
        steps = sum(self._counts.values())
        self._counts.clear()
        self._before.clear()
        return means, steps

    def state(self) -> dict[str, Tensor]:
        """Return what the next ``take`` depends on."""
        sums = {f"{_SUM}{name}": total for name, total in self._sums.items()}
        return sums | {f"{_TIMES}{name}": torch.tensor(self._times(name)) for name in self._sums}

    def load_state(self, tensors: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
        """Go on from what ``state`` returned; the tensors that are not its own."""
        for name, tensor in tensors.items():
            if name.startswith(_SUM):
                self._sums[name.removeprefix(_SUM)] = tensor.to(device)
            elif name.startswith(_TIMES):
                self._before[name.removeprefix(_TIMES)] = int(tensor)
        return {k: v for k, v in tensors.items() if not k.startswith((_SUM, _TIMES))}

    def _times(self, name: str) -> int:
        taken = (k for variant, k in self._counts.items() if name in self._names[variant])
        return self._before.get(name, 0) + sum(taken)


def train(
    trainings: Sequence[Training], on_record: Callable[[Job, Record], None] | None = None
) -> dict[Job, Exception]:
    """Bring all to their end, a step of each in turn; what went wrong, by job.

    On a GPU they run side by side. Each gives the same records whatever others it runs with.
    """
    failures: dict[Job, Exception] = {}
    active = list(trainings)
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=True):
        while active:
            for perform in (Training.advance, Training.settle):
                for training in active:
                    try:
                        record = perform(training)
                    except Exception as error:  # one run's trouble is not the others'
                        failures[training.job] = error
                        continue
                    if record is not None and on_record is not None:
                        on_record(training.job, record)
                active = [t for t in active if t.job not in failures]
            active = [training for training in active if not training.is_finished]
    return failures


def _memory(device: torch.device) -> float:
    """Return the most memory that this process has had on a GPU, in GiB; 0 without one."""
    if device.type != "cuda":
        return 0.0
    return torch.cuda.max_memory_allocated(device) / 2**30
