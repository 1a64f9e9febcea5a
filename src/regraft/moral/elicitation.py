"""Questions to a language model about what people with given values do, and what they cost."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from regraft.moral.answers import ANSWERS, check_answer, question_args
from regraft.moral.prompts import Question, parse_answer, system_prompt, user_prompt
from regraft.moral.scenarios import Library
from regraft.moral.values import PROFILES
from regraft.support.extras import quiet_loggers, require
from regraft.support.files import own
from regraft.support.progress import OnCount
from regraft.support.records import Records

DEFAULT_MODEL = "claude-haiku-4-5-20251001"
KEY = "ANTHROPIC_API_KEY"
MAX_TOKENS = 16  # a letter, or the beginning of a refusal

# No temperature is sent: models of today refuse one. So answers are samples, kept once drawn.
_RETRIED = (408, 409, 429)  # by the SDK, like all from 500 on; other errors are for good
_PAUSES = (0.25, 0.5, 1.0)  # seconds before a question is asked again after a malformed reply
_HOPELESS = 25  # questions that fail in a row, with all their retries, end a run
_KEPT = 200  # characters of a reply or of an error
_CHARACTERS_PER_TOKEN = 3.5  # of English; a rule of thumb, off by some ten percent either way
_TOKENS_PER_ANSWER = 5  # a letter and the end of the reply
_PER_MILLION = 1e6
_LOGGERS = ("anthropic", "httpx", "httpx2", "httpcore", "httpcore2")


@dataclass(frozen=True)
class Elicited:
    """Counts of a finished run; the answers are in ``path``, and refusals are among those asked."""

    path: Path
    asked: int
    cached: int
    refused: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Plan:
    """The questions without an answer, and the number of those with one."""

    questions: tuple[Question, ...]
    cached: int
    records: Records  # the answers


class _Malformed(Exception):
    """A reply that is not a message of the API."""


def api_key() -> str:
    """Read the API key from the environment; ``ValueError``, which never quotes it, if none."""
    key = os.environ.get(KEY, "").strip()
    if not key:
        raise ValueError(f"{KEY} is not set, so nothing was sent: put your API key into it.")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ValueError(f"{KEY} holds characters that are in no key: set it again.")
    return key


def plan(library: Library, *, model: str, out: Path, limit: int | None = None) -> Plan:
    """List what is left to ask about the first ``limit`` scenarios: each profile, both orders."""
    if limit is not None:
        check_positive(limit=limit)
    questions = [
        Question(scenario, profile, swapped)
        for scenario in library.scenarios[:limit]
        for profile in PROFILES
        for swapped in (False, True)
    ]
    records = Records(out / ANSWERS, check_answer)
    left = tuple(q for q in questions if not records.done(question_args(model, q)))
    return Plan(left, len(questions) - len(left), records)


def elicit(
    library: Library,
    *,
    model: str,
    out: Path,
    concurrency: int = 8,
    limit: int | None = None,
    max_retries: int = 6,
    timeout: float = 60.0,
    on_count: OnCount | None = None,
) -> Elicited:
    """Ask ``model`` every question about the first ``limit`` scenarios.

    Each answer is appended to a file in the folder ``out`` and never asked for again, so a run
    that was stopped in any way continues. The SDK's environment variables choose the API.
    ``timeout`` is in seconds. Raises ``ValueError`` with one sentence if the API refuses a request
    for good, or at the end if questions failed in spite of ``max_retries``.
    """
    check_positive(concurrency=concurrency, timeout=timeout)
    key, sdk = api_key(), require("anthropic", "elicit")
    refusal = f"another elicitation is at work in {out}: wait for it, or choose another folder."
    with own(out, refusal):
        todo = plan(library, model=model, out=out, limit=limit)
        total = len(todo.questions) + todo.cached

        def report_progress(answered: int) -> None:
            if on_count is not None:
                on_count(todo.cached + answered, total)

        interview = _Interview(sdk, key, model, todo.records, report_progress)
        # They print headers and the content of requests.
        with quiet_loggers(_LOGGERS, logging.CRITICAL + 1):
            asyncio.run(interview.hold(todo.questions, concurrency, max_retries, timeout))
    taken = interview.taken
    if interview.refusal is not None:
        raise ValueError(
            f"the API refused a request for good ({interview.refusal}): correct that and run "
            f"the same again, which goes on from {todo.cached + len(taken)} answers."
        )
    if len(taken) < len(todo.questions):
        raise ValueError(
            f"{len(todo.questions) - len(taken)} of {total} questions have no answer yet "
            f"(the last to fail: {interview.failure}): run the same again to ask only them."
        )
    return Elicited(
        out / ANSWERS,
        asked=len(taken),
        cached=todo.cached,
        refused=sum(record["answer"] is None for record in taken),
        input_tokens=sum(record["input_tokens"] for record in taken),
        output_tokens=sum(record["output_tokens"] for record in taken),
    )


class _Interview:
    """One run: several workers ask its questions at once and count what comes back."""

    def __init__(
        self,
        sdk: ModuleType,
        key: str,
        model: str,
        records: Records,
        on_answer: Callable[[int], None],
    ) -> None:
        self._sdk, self._key, self._model, self._records = sdk, key, model, records
        self._on_answer = on_answer
        self._failed_in_a_row = 0
        self.taken: list[dict[str, Any]] = []  # the records of this run
        self.refusal: str | None = None  # the error that is for good
        self.failure = ""  # the last that was not

    async def hold(
        self, questions: Sequence[Question], concurrency: int, max_retries: int, timeout: float
    ) -> None:
        """Ask all questions, ``concurrency`` of them at once."""
        self._on_answer(0)
        left = iter(questions)
        settings = {"api_key": self._key, "max_retries": max_retries, "timeout": timeout}
        async with self._sdk.AsyncAnthropic(**settings) as client:
            await asyncio.gather(*(self._work(client, left) for _ in range(concurrency)))

    async def _work(self, client: Any, left: Iterator[Question]) -> None:
        for question in left:  # which all workers share
            try:
                reply = await self._ask(client, question)
            except (self._sdk.APIError, _Malformed) as error:
                self._take_error(error)
            else:
                self._take_reply(question, *reply)
            if self.refusal is not None or self._failed_in_a_row >= _HOPELESS:
                return

    async def _ask(self, client: Any, question: Question) -> tuple[str, dict[str, int]]:
        content = user_prompt(question.scenario, question.swapped)
        for pause in (*_PAUSES, None):
            # A ValueError: the reply is no JSON, or not even text.
            with suppress(ValueError, self._sdk.APIResponseValidationError, _Malformed):
                message = await client.messages.create(
                    model=self._model,
                    max_tokens=MAX_TOKENS,
                    system=system_prompt(question.profile),
                    messages=[{"role": "user", "content": content}],
                )
                return _read_reply(message)
            if pause is not None:
                await asyncio.sleep(pause)
        raise _Malformed

    def _take_reply(self, question: Question, text: str, tokens: Mapping[str, int]) -> None:
        record = {
            "args": question_args(self._model, question),
            "answer": parse_answer(text),
            "text": self._clean(text),
            **tokens,
        }
        self._records.append(record)
        self._failed_in_a_row = 0
        self.taken.append(record)
        self._on_answer(len(self.taken))

    def _take_error(self, error: Exception) -> None:
        status = getattr(error, "status_code", None)
        if isinstance(error, _Malformed):
            self.failure = "a reply that is no message"
        elif isinstance(error, self._sdk.APITimeoutError):
            self.failure = "no reply in time"
        elif status is None:
            self.failure = "no connection to the API"
        else:
            self.failure = f"status {status}: {self._clean(_message(error)).rstrip('.')}"
        if status is not None and status < 500 and status not in _RETRIED:
            self.refusal = self.failure
        self._failed_in_a_row += 1

    def _clean(self, text: str) -> str:
        """Shorten a text of the API, and blank out the key, which it may quote."""
        return " ".join(text.replace(self._key, "[key]").split())[:_KEPT]


def check_positive(**settings: float) -> None:
    """Raise ``ValueError`` with one sentence unless all settings are above zero."""
    for name, value in settings.items():
        if not value > 0:
            raise ValueError(f"{name} is {value}: pass a number above 0.")


def _read_reply(message: Any) -> tuple[str, dict[str, int]]:
    """Read text and token counts of a message, which the SDK builds from any JSON."""
    content = getattr(message, "content", None)
    if not isinstance(content, list):
        raise _Malformed
    texts = [getattr(block, "text", None) for block in content]
    usage = getattr(message, "usage", None)
    tokens = {name: getattr(usage, name, None) for name in ("input_tokens", "output_tokens")}
    counts = {
        name: count if type(count) is int and count >= 0 else 0 for name, count in tokens.items()
    }
    return "".join(text for text in texts if isinstance(text, str)), counts


def _message(error: Any) -> str:
    """Find the API's own message in an error, or else the SDK's."""
    body = error.body if isinstance(error.body, dict) else {}
    described = body.get("error")
    words = described.get("message") if isinstance(described, dict) else None
    return words if isinstance(words, str) else str(error.message)


class Tokens(NamedTuple):
    """Numbers of tokens sent and received."""

    input: int
    output: int


@dataclass(frozen=True)
class Prices:
    """US dollars for a million tokens."""

    input: float
    output: float

    def cost(self, tokens: Tokens) -> float:
        """Return the cost in US dollars."""
        return (self.input * tokens.input + self.output * tokens.output) / _PER_MILLION


PRICES = {DEFAULT_MODEL: Prices(1.0, 5.0)}


def choose_prices(
    model: str, input_price: float | None, output_price: float | None
) -> Prices | None:
    """Return the prices given, else those known for ``model``; None if there are neither."""
    if model in PRICES:
        known = PRICES[model]
        input_price = known.input if input_price is None else input_price
        output_price = known.output if output_price is None else output_price
    if input_price is None and output_price is None:
        return None
    if input_price is None or output_price is None:
        raise ValueError("one price is missing: pass both --input-price and --output-price.")
    for price in (input_price, output_price):
        if not 0 <= price < math.inf:
            raise ValueError(f"the price {price} is none: pass US dollars per million tokens.")
    return Prices(input_price, output_price)


def estimate(questions: Sequence[Question]) -> Tokens:
    """Estimate the tokens that ``questions`` will take, by the rules of thumb above."""
    characters = sum(
        len(system_prompt(q.profile)) + len(user_prompt(q.scenario, q.swapped)) for q in questions
    )
    return Tokens(
        math.ceil(characters / _CHARACTERS_PER_TOKEN), _TOKENS_PER_ANSWER * len(questions)
    )


def dollars(cost: float) -> str:
    """Format a cost, with more digits where it is small."""
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.4f}"
