"""A stopwatch that runs while steps are taken, by a clock that tests turn."""

from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from regraft.bench.datasets import Dataset
from regraft.bench.protocol import step_clock, training
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.run_folder import RunFolder
from regraft.bench.protocol.step_clock import StepClock
from regraft.bench.protocol.training import Training, train

CPU = torch.device("cpu")


class Turned:
    """A clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def turned(monkeypatch: pytest.MonkeyPatch) -> Turned:
    clock = Turned()
    monkeypatch.setattr(step_clock, "time", clock)
    monkeypatch.setattr(training, "time", clock)
    return clock


def test_it_counts_what_lies_between_start_and_stop(turned: Turned) -> None:
    clock = StepClock(CPU)
    turned.now += 7
    assert not clock.is_running and clock.take() == 0
    for seconds in (1, 2):
        clock.start()
        assert clock.is_running
        turned.now += seconds
        clock.stop()
        turned.now += 10
    clock.stop()  # it stands already
    assert not clock.is_running
    assert clock.take() == 3 and clock.take() == 0


class Event:
    """A mark on a stream of a GPU, which has its time only once the stream was waited for."""

    queued: ClassVar[list[float]] = []

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, stream: str) -> None:
        assert stream == "stream of cuda:1"
        self.at = len(self.queued)
        self.queued.append(0.0)

    def elapsed_time(self, end: "Event") -> float:
        return self.queued[end.at] - self.queued[self.at]


def test_on_a_gpu_it_marks_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"stream of {device}")
    clock = StepClock(torch.device("cuda:1"))
    for _ in range(2):
        clock.start()
        clock.stop()
    Event.queued[:] = [100.0, 250.0, 1000.0, 1500.0]  # milliseconds
    assert clock.take() == pytest.approx(0.65)


@pytest.mark.parametrize("swad", [False, True])
def test_records_have_the_time_of_steps_alone_and_of_everything(
    turned: Turned, toy: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swad: bool
) -> None:
    """A step takes 1 second, an evaluation 50 or 1000, saving 7, and 30 pass before the first."""
    settings: dict[str, Any] = {"steps": 5, "checkpoint_freq": 2, "fingerprint": toy.fingerprint}
    job = Job("toy", "ERM", (0,), swad=swad, **settings)
    made = Training(job, toy, RunFolder(tmp_path, job.id), device=CPU, save_every=0.0)

    def slowly(kind: object, name: str, seconds: float) -> None:
        perform = getattr(kind, name)

        def delayed(*args: object, **options: object) -> object:
            turned.now += seconds
            return perform(*args, **options)

        monkeypatch.setattr(kind, name, delayed)

    slowly(made._algorithm, "update", 1)
    slowly(training, "count_correct", 50)
    slowly(training, "mean_loss", 1000)
    slowly(RunFolder, "save", 7)
    turned.now += 30
    assert not train([made])
    records = RunFolder(tmp_path, job.id).records()
    expected = [(0, 1, 30 + 1 + 50), (2, 1, 7 + 2 + 50), (4, 1, 7 + 2 + 50)]
    if swad:
        expected = [(4, 1, 30 + 5 + 3 * 1000 + 50 + 4 * 7)]
    found = [(record["step"], record["step_time"], record["seconds"]) for record in records]
    assert found == expected
