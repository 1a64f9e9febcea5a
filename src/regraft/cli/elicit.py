"""What ``regraft moral elicit`` does: scenarios in, a model's answers and what they cost out."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer

from regraft.cli.console import Screen
from regraft.cli.session import Run
from regraft.moral.answers import Answers, read_answers
from regraft.moral.elicitation import (
    DEFAULT_MODEL,
    Elicited,
    Plan,
    api_key,
    check_positive,
    elicit,
    load_sdk,
    plan,
)
from regraft.moral.library import make_library
from regraft.moral.prompts import Question, system_prompt, user_prompt
from regraft.moral.scenarios import Library, read_library
from regraft.support.embedding_meter import Meter
from regraft.support.table import percent

CHARACTERS_PER_TOKEN = 3.5  # of English; a rule of thumb, off by some ten percent either way
TOKENS_PER_ANSWER = 5  # a letter and the end of the reply
_PER_MILLION = 1e6
_TOLD_EVERY = 0.5  # seconds
_LINE_EVERY = 10.0  # seconds between lines where there is no terminal


@dataclass(frozen=True)
class Tokens:
    """Numbers of tokens sent and received."""

    input: int
    output: int


@dataclass(frozen=True)
class Prices:
    """US dollars for a million tokens."""

    input: float
    output: float

    def cost(self, tokens: Tokens) -> float:
        """US dollars."""
        return (self.input * tokens.input + self.output * tokens.output) / _PER_MILLION


PRICES = {DEFAULT_MODEL: Prices(1.0, 5.0)}


def run_elicit(
    screen: Screen,
    run: Run,
    scenarios: Path | None,
    *,
    out: Path,
    model: str,
    concurrency: int,
    limit: int | None,
    input_price: float | None,
    output_price: float | None,
    yes: bool,
    silent: str | None,
) -> None:
    """Ask ``model`` about the library in ``scenarios``, or a generated one, once it may spend.

    Writes the answers to ``out``. ``silent`` is the option that leaves no room to ask whether it
    may, None if there is room. Raises ``ValueError`` or ``FileNotFoundError`` with one
    sentence.
    """
    api_key()  # before anything else, so that nobody confirms what cannot be sent
    check_positive(concurrency=concurrency)
    prices = choose_prices(model, input_price, output_price)
    with screen.working("reading the scenarios"):
        load_sdk()
        library = make_library() if scenarios is None else read_library(scenarios)
        todo = plan(library, model=model, out=out, limit=limit)
    if scenarios is None:
        screen.note(
            f"No --scenarios given: these are {len(library.scenarios)} generated ones, made from "
            "templates."
        )
    screen.note(_offer(todo, model, prices))
    if todo.questions and not yes and not _confirm(silent):
        screen.say("Nothing was sent.")
        return
    elicited = _ask(screen, library, out, model, concurrency, limit)
    answers = read_answers(elicited.path, library, model=model)
    _show(screen, run, library, elicited, answers, prices)


def choose_prices(
    model: str, input_price: float | None, output_price: float | None
) -> Prices | None:
    """The prices given, else those known for ``model``, None if neither.

    Raises ``ValueError`` with one sentence if one is missing or no price.
    """
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
    """The tokens that ``questions`` will take, by the rules of thumb above."""
    characters = sum(
        len(system_prompt(q.profile)) + len(user_prompt(q.scenario, q.swapped)) for q in questions
    )
    return Tokens(math.ceil(characters / CHARACTERS_PER_TOKEN), TOKENS_PER_ANSWER * len(questions))


def _offer(todo: Plan, model: str, prices: Prices | None) -> str:
    """What would be asked, and what it may cost."""
    asked = f"{len(todo.questions):,} questions to ask {model}, {todo.cached:,} answered before"
    if not todo.questions:
        return f"{asked}."
    tokens = estimate(todo.questions)
    text = f"{asked}: about {tokens.input:,} input and {tokens.output:,} output tokens"
    if prices is None:
        return f"{text}; --input-price and --output-price would tell the cost."
    return f"{text}, about {_dollars(prices.cost(tokens))}."


def _confirm(silent: str | None) -> bool:
    """Whether somebody at the terminal agrees; ``ValueError`` if nobody can be asked."""
    if silent or not sys.stdin.isatty():
        why = f"{silent} leaves no room to ask" if silent else "there is no terminal to ask at"
        raise ValueError(f"asking a model costs money and {why}: agree with --yes.")
    try:
        return typer.confirm("Send them?")
    except typer.Abort:  # the end of the input, or Ctrl-C
        return False


def _ask(
    screen: Screen, library: Library, out: Path, model: str, concurrency: int, limit: int | None
) -> Elicited:
    every = _TOLD_EVERY if screen.is_live else _LINE_EVERY
    with screen.working(f"asking {model}") as tell:
        return elicit(
            library,
            model=model,
            out=out,
            concurrency=concurrency,
            limit=limit,
            on_progress=Meter(tell, "questions", every),
        )


def _show(
    screen: Screen,
    run: Run,
    library: Library,
    elicited: Elicited,
    answers: Answers,
    prices: Prices | None,
) -> None:
    parts = {
        "this run": (
            elicited.asked,
            elicited.refused,
            Tokens(elicited.input_tokens, elicited.output_tokens),
        ),
        "all answers": (
            answers.answered + answers.refused,
            answers.refused,
            Tokens(answers.input_tokens, answers.output_tokens),
        ),
    }
    rows, documents = [], {}
    for name, (asked, refused, tokens) in parts.items():
        cost = None if prices is None else prices.cost(tokens)
        numbers = [f"{number:,}" for number in (asked, refused, tokens.input, tokens.output)]
        rows.append((name, *numbers, "unknown" if cost is None else _dollars(cost)))
        documents[name] = {
            "asked": asked,
            "refused": refused,
            "tokens": asdict(tokens),
            "dollars": cost,
        }
    screen.table(("", "asked", "refused or unclear", "input tokens", "output tokens", "cost"), rows)
    screen.say(
        f"Taken from earlier runs: {elicited.cached:,}.",
        _bias(answers.position_bias),
        answers.mechanism,
    )
    document: dict[str, Any] = {
        "model": answers.model,
        "mechanism": answers.mechanism,
        "library": {"origin": library.origin, "checksum": library.checksum},
        "cached": elicited.cached,
        "this_run": documents["this run"],
        "all_answers": documents["all answers"],
        "unasked": answers.unasked,
        "position_bias": answers.position_bias,
    }
    run.finish(screen, document, [elicited.path])


def _bias(bias: float | None) -> str:
    if bias is None:
        return "Position bias: unknown, as no question was answered in both orders."
    return f"Position bias: {percent(bias)} of the pairs of orders disagree on the action."


def _dollars(cost: float) -> str:
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.4f}"
