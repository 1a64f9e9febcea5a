"""``regraft moral elicit``: what it costs, what it sends, and how it is stopped and goes on."""

import json
import math
import os
import pty
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regraft.cli.command import RESUMES
from regraft.moral.answers import ANSWERS
from regraft.moral.elicitation import DEFAULT_MODEL, Prices, Tokens, choose_prices, estimate
from regraft.moral.library import make_library
from regraft.moral.prompts import Question, system_prompt, user_prompt
from regraft.moral.scenarios import SCENARIOS_FILE
from regraft.moral.values import PROFILES
from tests.helpers.commands import Ran, Run, kill_when
from tests.helpers.fake_api import KEY, FakeApi, Received, Sent, failure, message
from tests.helpers.paths import SHARED
from tests.helpers.small_library import small_library, write_scenarios

REAL = SHARED / "moralchoice"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two scenarios in MoralChoice's columns."""
    return write_scenarios(tmp_path / SCENARIOS_FILE, small_library(2))


def test_what_is_shown(api: FakeApi, table: Path, tmp_path: Path, run: Run) -> None:
    def answer(request: Received) -> Sent:
        asked = request.body["messages"][0]["content"]
        if "Case 0" in asked and "is a collectivist" in request.body["system"]:
            return message("I will not say.")
        return message("A" if "Case 1" in asked else "A" if "A: Go." in asked else "B")

    api.answer = answer
    out = tmp_path / "out"
    ran = run("moral", "elicit", "--scenarios", table, "--out", out, "--yes")
    assert ran.code == 0 and ran.err == ""
    assert "108 questions to ask claude-haiku-4-5-20251001, 0 answered before: about" in ran.out
    lines = [line.split() for line in ran.out.splitlines()]
    # 9 of 27 profiles are collectivist. 10,800 tokens at $1 and 432 at $5 a million.
    cells = ["108", "18", "10,800", "432", "$0.0130"]
    assert ["this", "run", *cells] in lines and ["all", "answers", *cells] in lines
    # Case 1 always takes option A, so its 27 pairs disagree; 18 pairs of case 0 agree.
    assert "Position bias: 60.0% of the pairs of orders disagree on the action." in ran.out
    assert "Labels were elicited from claude-haiku-4-5-20251001" in ran.out
    assert f"Written: {out / ANSWERS}, {out / 'provenance.json'}" in ran.out
    again = run("moral", "elicit", "--scenarios", table, "--out", out)  # nothing to agree to
    assert again.code == 0 and len(api.requests) == 108
    assert "0 questions to ask claude-haiku-4-5-20251001, 108 answered before." in again.out
    assert "Taken from earlier runs: 108." in again.out
    assert ["this", "run", "0", "0", "0", "0", "$0.0000"] in [
        line.split() for line in again.out.splitlines()
    ]


def test_json_is_one_document(api: FakeApi, table: Path, tmp_path: Path, run: Run) -> None:
    command = ("moral", "elicit", "--scenarios", table, "--out", tmp_path / "o", "--limit", 1)
    refused = run(*command, "--json")
    assert (refused.code, refused.out, api.requests) == (2, "", [])
    assert refused.err.splitlines()[-1] == (
        "regraft: asking a model costs money and --json leaves no room to ask: agree with --yes."
    )
    silent = run(*command, "--quiet")
    assert (silent.code, silent.out, api.requests) == (2, "", [])
    assert silent.err == (
        "regraft: asking a model costs money and --quiet leaves no room to ask: agree with --yes.\n"
    )
    prices = ("--model", "m", "--input-price", 1000, "--output-price", 2000)
    document = json.loads(run(*command, "--json", "--yes", *prices).out)
    assert (document["model"], document["cached"], document["unasked"]) == ("m", 0, 54)
    assert document["position_bias"] == 1
    assert document["all_answers"] == document["this_run"]
    used = {"asked": 54, "refused": 0, "tokens": {"input": 5400, "output": 216}}
    assert document["this_run"] == used | {"dollars": pytest.approx(5.4 + 0.432)}
    assert re.fullmatch("[0-9a-f]{64}", document["library"]["checksum"])
    files = ANSWERS, "provenance.json"
    assert document["files"] == [str(tmp_path / "o" / name) for name in files]


def test_nothing_is_sent_without_a_terminal_or_a_key(
    api: FakeApi, table: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = run("moral", "elicit", "--scenarios", table, "--out", tmp_path / "n", "--model", "m")
    assert ran.code == 2 and ran.err.count("\n") == 1
    assert "there is no terminal to ask at: agree with --yes." in ran.err
    assert "output tokens; --input-price and --output-price would tell the cost." in ran.out
    assert "$" not in ran.out and api.requests == []
    out = tmp_path / "o"
    ran = run("moral", "elicit", "--scenarios", table, "--out", out, "--concurrency", 0)
    assert (ran.code, ran.err) == (2, "regraft: concurrency is 0: pass a number above 0.\n")
    assert "questions" not in ran.out and api.requests == [] and not out.exists()
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    ran = run("moral", "elicit", "--out", tmp_path / "o")
    assert (ran.code, ran.err.count("\n"), api.requests) == (2, 1, [])
    assert ran.err.startswith("regraft: ANTHROPIC_API_KEY is not set, so nothing was sent")
    assert "questions" not in ran.out


def test_a_wrong_key_is_one_sentence(api: FakeApi, table: Path, tmp_path: Path, run: Run) -> None:
    api.answer = lambda _: failure(401, f"invalid x-api-key {KEY}")
    ran = run("moral", "elicit", "--scenarios", table, "--out", tmp_path / "o", "--yes")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert ran.err.startswith("regraft: the API refused a request for good (status 401: invalid ")
    assert KEY not in ran.out + ran.err
    assert not any(KEY in p.read_text() for p in (tmp_path / "o").iterdir() if p.is_file())
    assert len(api.requests) <= 8


@pytest.mark.parametrize(
    ("typed", "sent"), [(b"n\n", 0), (b"\x04", 0), (b"y\n", 54)], ids=["no", "end", "yes"]
)
def test_somebody_at_a_terminal_is_asked(
    api: FakeApi,
    tmp_path: Path,
    typed: bytes,
    sent: int,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without --scenarios, so that generated ones are said to be generated."""
    leader, follower = pty.openpty()
    with os.fdopen(leader, "wb", buffering=0) as keyboard, os.fdopen(follower) as terminal:
        keyboard.write(typed)
        monkeypatch.setattr(sys, "stdin", terminal)
        ran = run("moral", "elicit", "--out", tmp_path / "o", "--limit", 1)
    assert (ran.code, ran.err) == (0, "")
    assert "No --scenarios given: these are 200 generated ones" in ran.out
    assert "54 questions to ask" in ran.out and "Send them? [y/N]" in ran.out
    assert ("Nothing was sent." in ran.out) == (sent == 0)
    assert len(api.requests) == sent


def test_interrupted_it_goes_on(api: FakeApi, table: Path, tmp_path: Path, run: Run) -> None:
    def answer(request: Received) -> Sent:
        if request.number == 20:
            os.kill(os.getpid(), signal.SIGINT)
        return message("A", delay=0.02)

    api.answer = answer
    out = tmp_path / "o"
    options = ("moral", "elicit", "--scenarios", table, "--out", out, "--yes")
    # A shell that starts the tests in the background has them ignore interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        ran = run(*options)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (ran.code, ran.err) == (130, f"regraft: interrupted: {RESUMES}.\n")
    check_going_on(api, lambda: run(*options), out)


def test_killed_it_goes_on(api: FakeApi, table: Path, tmp_path: Path, run: Run) -> None:
    api.answer = lambda _: message("A", delay=0.05)
    out = tmp_path / "o"
    options = ("moral", "elicit", "--scenarios", table, "--out", out, "--yes")
    kill_when(lambda: (out / ANSWERS).exists() and len(lines(out)) >= 20, *options)
    check_going_on(api, lambda: run(*options), out)


def check_going_on(api: FakeApi, go_on: Callable[[], Ran], out: Path) -> None:
    """A run that was stopped is finished, and what had an answer is not asked again."""
    finished, before = lines(out), api.counts()
    assert 0 < len(finished) < 108
    assert len(finished) <= sum(before.values()) <= len(finished) + 8  # those on their way
    api.answer = lambda _: message("A")
    ran = go_on()
    assert ran.code == 0 and f"{len(finished)} answered before" in ran.out
    again = {question: n - before[question] for question, n in api.counts().items()}
    assert sum(again.values()) == 108 - len(finished)  # those without an answer, once each
    assert set(again.values()) == {0, 1} and len(again) == 108
    assert lines(out)[: len(finished)] == finished and len(lines(out)) == 108


def lines(out: Path) -> list[str]:
    """The whole lines of the file of answers."""
    return (out / ANSWERS).read_text().split("\n")[:-1]


def test_the_estimate_by_hand_and_prices() -> None:
    scenario = make_library(10).scenarios[0]
    questions = [Question(scenario, profile, True) for profile in PROFILES[:2]]
    system = sum(len(system_prompt(profile)) for profile in PROFILES[:2])
    tokens = estimate(questions)
    assert tokens.input == math.ceil((system + 2 * len(user_prompt(scenario, True))) / 3.5)
    assert tokens.output == 10
    assert Prices(1.0, 5.0).cost(Tokens(2_000_000, 300_000)) == pytest.approx(3.5)
    assert choose_prices(DEFAULT_MODEL, None, None) == Prices(1.0, 5.0)
    assert choose_prices(DEFAULT_MODEL, None, 7.0) == Prices(1.0, 7.0)
    assert choose_prices("m", 2.0, 0.0) == Prices(2.0, 0.0)
    assert choose_prices("m", None, None) is None
    with pytest.raises(ValueError, match="pass both --input-price and --output-price"):
        choose_prices("m", 2.0, None)
    for wrong in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="pass US dollars per million tokens"):
            choose_prices("m", wrong, 1.0)


@pytest.mark.skipif(not REAL.is_dir(), reason="MoralChoice is not in ../shared/data")
def test_the_whole_library_is_offered(api: FakeApi, tmp_path: Path, run: Run) -> None:
    ran = run("moral", "elicit", "--scenarios", REAL, "--out", tmp_path / "o")
    assert ran.code == 2 and api.requests == []
    assert "36,720 questions to ask" in ran.out
