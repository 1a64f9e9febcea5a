"""Asking a real server through the real SDK: retries, refusals, and nothing asked twice."""

import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regraft.moral.answers import ANSWERS, read_answers
from regraft.moral.elicitation import Elicited, elicit, plan
from regraft.moral.prompts import system_prompt
from regraft.moral.scenarios import Library
from regraft.moral.values import PROFILES
from regraft.support.files import claim
from tests.helpers.errors import one_sentence
from tests.helpers.fake_api import KEY, SOON, FakeApi, Received, Sent, failure, message
from tests.helpers.small_library import small_library

QUESTIONS = 27 * 2  # about a scenario
LIBRARY = small_library(1)


def ask(out: Path, library: Library = LIBRARY, **settings: Any) -> Elicited:
    return elicit(library, model="m", out=out, **settings)


def records(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / ANSWERS).read_text().splitlines()]


def first_time(*bad: Sent) -> Callable[[Received], Sent]:
    """Each of the bad answers once, to the first request for some question; then good ones."""
    left = list(bad)
    lock = threading.Lock()

    def answer(request: Received) -> Sent:
        with lock:
            return left.pop() if request.before == 0 and left else message("A")

    return answer


def test_every_profile_is_asked_in_both_orders(api: FakeApi, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    # "Go." is taken wherever it stands.
    api.answer = lambda r: message("A" if "A: Go." in r.body["messages"][0]["content"] else "B")
    elicited = ask(tmp_path, on_count=lambda *numbers: told.append(numbers))
    assert elicited == Elicited(tmp_path / ANSWERS, 54, 0, 0, 5400, 216)
    assert told == [(n, 54) for n in range(55)]
    assert len(api.counts()) == 54 and set(api.counts().values()) == {1}
    asked = {(r.body["system"], r.body["messages"][0]["content"]) for r in api.requests}
    assert len({system for system, _ in asked}) == 27
    assert sorted("A: Go." in user for _, user in asked) == [False] * 27 + [True] * 27
    body = api.requests[0].body
    assert (body["model"], body["max_tokens"]) == ("m", 16)
    assert "temperature" not in body  # which models of today refuse
    answers = read_answers(tmp_path, LIBRARY)
    assert answers.position_bias == 0 and (answers.probabilities == 1).all()


def test_counts_of_tokens_that_are_none_are_not_kept(api: FakeApi, tmp_path: Path) -> None:
    api.answer = lambda _: message("A", input_tokens=-5, output=True)
    elicited = ask(tmp_path)
    assert (elicited.input_tokens, elicited.output_tokens) == (0, 0)
    read_answers(tmp_path, LIBRARY)  # are records


def test_an_answer_that_is_there_is_not_asked_again(api: FakeApi, tmp_path: Path) -> None:
    library = small_library(3)
    ask(tmp_path, library, limit=1)
    assert len(api.requests) == QUESTIONS
    assert plan(library, model="m", out=tmp_path).cached == QUESTIONS
    elicited = ask(tmp_path, library, limit=2)
    assert (elicited.asked, elicited.cached, len(api.requests)) == (54, 54, 108)
    assert ask(tmp_path, library, limit=2).asked == 0 and len(api.requests) == 108
    assert set(api.counts().values()) == {1}
    elicit(library, model="other", out=tmp_path, limit=1)
    assert len(api.requests) == 162


PASSING = [
    failure(429, "slow down"),
    failure(429, "slow down", {"retry-after": "0.02"}),
    failure(500, "oops"),
    failure(529, "overloaded"),
    Sent(408, b"", SOON),
]
MALFORMED = [
    Sent(body=b'{"id": "msg_1", "content": [{"ty'),
    Sent(body=b"\xff\xfe"),
    Sent(body=b"<html>", headers={"content-type": "text/html"}),
    Sent(body=b"null"),
    Sent(body=b'"A"'),
    Sent(body=b"[]"),
    Sent(body=b'{"type": "message", "usage": {"input_tokens": 3, "output_tokens": 1}}'),
    Sent(body=b'{"type": "message", "content": null}'),
]


@pytest.mark.parametrize("bad", [PASSING, MALFORMED], ids=["errors that pass", "malformed replies"])
def test_what_may_pass_is_asked_again(api: FakeApi, tmp_path: Path, bad: list[Sent]) -> None:
    api.answer = first_time(*bad)
    assert ask(tmp_path).asked == QUESTIONS
    assert sorted(api.counts().values()) == [1] * (QUESTIONS - len(bad)) + [2] * len(bad)
    assert all(record["answer"] == "A" for record in records(tmp_path))


def first_fails(api: FakeApi, times: int) -> Callable[[Received], Sent]:
    """Fail the question that is asked first as many ``times``; answer all others."""

    def answer(request: Received) -> Sent:
        is_first = request.question == api.requests[0].question
        return failure(500, "oops") if is_first and request.before < times else message("A")

    return answer


def test_500_is_retried_until_it_passes_as_often_as_said(api: FakeApi, tmp_path: Path) -> None:
    api.answer = first_fails(api, 4)
    assert ask(tmp_path).asked == QUESTIONS
    assert sorted(api.counts().values()) == [1] * 53 + [5]
    api.requests.clear()
    api.answer = first_fails(api, 99)
    with pytest.raises(ValueError, match="1 of 54 questions"):
        ask(tmp_path / "again", max_retries=4)
    assert max(api.counts().values()) == 5


def test_a_late_reply_is_asked_for_again_and_requests_overlap(api: FakeApi, tmp_path: Path) -> None:
    api.answer = lambda _: message("A", delay=0.05)
    ask(tmp_path / "quick", concurrency=6)
    assert 1 < api.most_at_once <= 6
    api.requests.clear()
    late = message("B", delay=0.8)
    api.answer = lambda r: late if r.number == 0 else message("A")
    assert ask(tmp_path, timeout=0.3).asked == QUESTIONS
    assert sorted(api.counts().values()) == [1] * 53 + [2]
    assert all(record["answer"] == "A" for record in records(tmp_path))


def test_refusals_are_kept_and_not_asked_again(api: FakeApi, tmp_path: Path) -> None:
    words = "I cannot decide that. " + "x" * 500
    api.answer = lambda r: message(words if "A: Go." in str(r.body["messages"]) else "")
    elicited = ask(tmp_path)
    assert (elicited.asked, elicited.refused) == (54, 54)
    assert all(record["answer"] is None for record in records(tmp_path))
    assert {record["text"] for record in records(tmp_path)} == {words[:200], ""}
    assert ask(tmp_path).cached == 54 and len(api.requests) == 54
    assert read_answers(tmp_path, LIBRARY).missing.all()


@pytest.mark.parametrize("status", [400, 401, 404])
def test_an_error_for_good_ends_the_run(api: FakeApi, tmp_path: Path, status: int) -> None:
    refusal = failure(status, f"no, not\nwith {KEY}.")
    api.answer = lambda request: message("A") if request.number < 10 else refusal
    with pytest.raises(ValueError) as caught:
        ask(tmp_path, concurrency=2)
    assert f"(status {status}: no, not with [key])" in one_sentence(caught.value)
    assert "goes on from 10 answers" in str(caught.value)
    assert KEY not in str(caught.value) and caught.value.__context__ is None
    assert 11 <= len(api.requests) <= 12  # the other worker's may have been on its way
    api.answer = lambda _: message("A")
    assert ask(tmp_path).cached == 10


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (failure(429, "slow down"), "status 429: slow down"),
        (Sent(503, b"<html>", SOON | {"content-type": "text/html"}), "status 503: <html>"),
        (Sent(body=b"{"), "a reply that is no message"),
    ],
)
def test_lasting_failures_are_counted(api: FakeApi, tmp_path: Path, bad: Sent, reason: str) -> None:
    words = system_prompt(PROFILES[5])
    api.answer = lambda r: bad if r.body["system"] == words else message("A")
    with pytest.raises(ValueError) as caught:
        ask(tmp_path, max_retries=2)
    text = one_sentence(caught.value)
    assert text.startswith(f"2 of 54 questions have no answer yet (the last to fail: {reason})")
    assert len(records(tmp_path)) == 52
    api.answer = lambda _: message("A")
    assert (ask(tmp_path).asked, len(records(tmp_path))) == (2, 54)


def test_a_hopeless_run_ends(api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api.answer = lambda _: failure(500, "oops")
    with pytest.raises(ValueError, match=r"^108 of 108 questions have no answer yet"):
        ask(tmp_path, small_library(2), max_retries=0)
    assert 25 <= len(api.requests) <= 25 + 8
    with FakeApi() as gone:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", gone.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with pytest.raises(ValueError, match="no connection to the API"):
        ask(tmp_path, max_retries=0)


@pytest.mark.parametrize("key", [None, " \n", "sk…", "two words", "line\nbreak"])
def test_nothing_is_sent_without_a_key(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another way in")
    if key is None:
        monkeypatch.delenv("ANTHROPIC_API_KEY")
    else:
        monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    with pytest.raises(ValueError) as caught:
        ask(tmp_path / "out")
    text = one_sentence(caught.value)
    assert text.startswith("ANTHROPIC_API_KEY ") and not (key and key.strip() and key in text)
    assert api.requests == [] and not (tmp_path / "out").exists()


def test_the_key_goes_to_the_api_and_nowhere_else(
    api: FakeApi,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another way in")  # which the SDK warns about
    monkeypatch.setenv("ANTHROPIC_API_KEY", f"{KEY}\n")
    level = logging.getLogger("anthropic").level
    api.answer = lambda _: message(f"I have seen {KEY}, so I say nothing.")
    ask(tmp_path)
    assert all(KEY in str(request.headers) for request in api.requests)
    assert "another way in" not in str(api.requests)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files and not any(KEY.encode() in path.read_bytes() for path in files)
    assert records(tmp_path)[0]["text"] == "I have seen [key], so I say nothing."
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
    assert [r for r in caplog.records if r.name.startswith(("anthropic", "http"))] == []
    assert logging.getLogger("anthropic").level == level


def test_a_folder_at_work_is_left_alone_and_plans_ask_nothing(api: FakeApi, tmp_path: Path) -> None:
    with claim(tmp_path) as is_ours:
        assert is_ours
        with pytest.raises(ValueError, match="another elicitation is at work"):
            ask(tmp_path)
    questions = plan(small_library(2), model="m", out=tmp_path).questions
    assert [q.scenario.id for q in questions] == ["H_0"] * 54 + ["H_1"] * 54
    assert [q.profile for q in questions[:54:2]] == list(PROFILES)
    assert api.requests == []


@pytest.mark.parametrize("settings", [{"concurrency": 0}, {"limit": 0}, {"timeout": 0.0}])
def test_wrong_settings(api: FakeApi, tmp_path: Path, settings: dict[str, Any]) -> None:
    (name,) = settings
    with pytest.raises(ValueError, match=f"^{name} is 0(.0)?: pass a number above 0"):
        ask(tmp_path, **settings)
    assert api.requests == []
