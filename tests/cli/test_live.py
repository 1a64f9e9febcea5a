"""What is seen of a sweep under way, in a terminal and elsewhere."""

import re
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.launch import Tally
from regraft.bench.protocol.worker import Outcome
from regraft.cli import live
from regraft.cli.console import Console
from regraft.cli.live import LiveSweep, describe
from regraft.support.table import Number, Table

START = Tally(total=360, done=0, done_before=0, running=2, held=0, failed=(), seconds=0.0)
FAILED = Outcome(Job("toy", "ERM", (0,)), "failed", "no")
TABLE = Table("toy, validation", ("Algorithm", "a", "Avg"), (("ERM", Number(71.25, 0.5), None),))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Seconds ``now`` that pass only when told."""
    clock = SimpleNamespace(now=100.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(live, "time", clock)
    return clock


@pytest.mark.parametrize(
    ("tally", "line"),
    [
        (START, "0 of 360 runs"),
        (
            replace(START, done=120, failed=(FAILED, FAILED), seconds=122.0),
            "120 of 360 runs, 2 failed, about 4 min left",
        ),
        (
            replace(START, done=358, done_before=358, held=2),
            "358 of 360 runs, 2 in another launcher's hands",
        ),
        (replace(START, done=360, seconds=600.0), "360 of 360 runs"),
    ],
)
def test_a_tally_in_a_line(tally: Tally, line: str) -> None:
    assert describe(tally) == line


def test_without_a_terminal_there_is_a_line_every_ten_seconds_and_one_at_the_end(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    with LiveSweep(Console(as_json=True), lambda: TABLE).showing() as tell:
        for second in range(25):
            clock.now = 100 + second
            tell(replace(START, done=second))
    output = capsys.readouterr()
    assert output.out == ""  # where the JSON goes
    lines = [line.split(",")[0] for line in output.err.splitlines()]
    assert lines == [f"{n} of 360 runs" for n in (0, 10, 20, 24)]
    with LiveSweep(Console(as_json=False), lambda: None).showing() as tell:
        tell(replace(START, done=360))
    assert capsys.readouterr().out.splitlines() == ["360 of 360 runs"]
    sweep = LiveSweep(Console(as_json=False), lambda: None)
    with sweep.showing() as tell:
        tell(START)
        clock.now += 30
        sweep._beat()
        assert len(capsys.readouterr().out.splitlines()) == 1
        clock.now += 30
        sweep._beat()
        assert "0 of 360 runs; 2 running, 1:00 so far" in capsys.readouterr().out


def seen(text: str) -> str:
    """``text`` without what moves the cursor and colours."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_in_a_terminal_there_is_a_bar_and_the_table_so_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    tally = replace(START, done=180, done_before=180, failed=(FAILED,), seconds=3700.0)
    with LiveSweep(Console(as_json=False), lambda: TABLE).showing() as tell:
        tell(tally)
    shown = seen(capsys.readouterr().out)
    assert "180 of 360 runs, 1 failed, about" in shown
    assert "2 running, 1:01:40 so far" in shown
    assert "━━━" in shown
    assert "toy, validation, so far" in shown
    assert "71.2 ± 0.5" in shown
    assert shown.rstrip().splitlines()[-1].startswith("180 of 360 runs, 1 failed")


def test_tables_are_made_seldom_and_again_and_again_while_inside(clock: SimpleNamespace) -> None:
    made: list[float] = []

    def make() -> Table:
        made.append(clock.now - 100)
        clock.now += 2.0 if len(made) == 2 else 0.0
        return TABLE

    kept = live._Kept(make)
    for _ in range(60):
        assert kept() is TABLE
        clock.now += 1
    # The second takes 2 s, which may be a twentieth of the time: the next comes 40 s later.
    assert made == [0, 5, 47, 52, 57]
    twice = threading.Semaphore(0)
    with live._every(0.001, twice.release):
        assert twice.acquire(timeout=10)
        assert twice.acquire(timeout=10)
    assert not any("repeat" in thread.name for thread in threading.enumerate())
