"""What is said about the time that passes."""

import re

import pytest

from regraft.support.progress import Countdown, Meter, Stopwatch, duration


def test_parts_are_counted_in_their_order_even_after_an_error() -> None:
    watch = Stopwatch("first", "second", "third")
    with watch.part("second"), watch.part("first"):
        sum(range(200_000))
    with pytest.raises(ValueError, match="oh"), watch.part("first"):
        raise ValueError("oh")
    seconds = watch.seconds()
    assert list(seconds) == ["first", "second", "third", "total"]
    assert seconds["third"] == 0 <= seconds["first"] <= seconds["second"] <= seconds["total"]


def test_a_countdown_estimates_from_its_own_steps_alone() -> None:
    countdown = Countdown("runs", total=4, done=1)
    assert countdown.advance(1) == "runs: 1 of 4"
    assert re.fullmatch(r"runs: 2 of 4, about \d+ s left", countdown.next())
    assert re.fullmatch(r"runs: 3 of 4, about \d+ s left", countdown.next())
    assert countdown.next() == "runs: 4 of 4"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "1 s"), (89.4, "89 s"), (90, "2 min"), (3600, "60 min"), (5400, "1.5 h"), (1e5, "27.8 h")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == f"about {text}"


def test_a_meter_speaks_now_and_then() -> None:
    told: list[str] = []
    meter = Meter(told.append, "images", every=1e9)
    for done in (64, 128, 192, 256):
        meter(done, 256)
    first, last = told
    assert first == "images: 64 of 256"
    assert re.fullmatch(r"images: 256 of 256, \d+ images/s", last)
    meter = Meter(told.append, "images", every=0)
    meter(0, 256)
    meter(64, 256)
    assert re.fullmatch(r"images: 64 of 256, about \d+ s left, \d+ images/s", told[-1])


def test_steps_slower_than_one_a_second_have_no_speed() -> None:
    countdown = Countdown("heads", total=4)
    countdown._start -= 60
    assert countdown.advance(2, with_speed=True) == "heads: 2 of 4, about 60 s left"
