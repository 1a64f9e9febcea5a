"""``regraft moral elicit``: scenarios in, a model's answers and what they cost out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regraft.cli.command import command
from regraft.cli.moral_run import group
from regraft.cli.names import MODEL
from regraft.cli.options import Folder, path_option
from regraft.cli.session import Session

if TYPE_CHECKING:
    from regraft.moral.answers import Answers
    from regraft.moral.elicitation import Elicited, Plan, Prices


@command("elicit", group=group, resumes=True)
def elicit_command(
    session: Session,
    out: Annotated[Path, Folder],
    model: Annotated[str, typer.Option(help="Name of the model.")] = MODEL,
    scenarios: Annotated[
        Path | None,
        path_option(
            "MoralChoice's .csv file, or the folder with it; by default scenarios are generated."
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(help="Requests at the same time.")] = 8,
    limit: Annotated[int | None, typer.Option(help="Ask about so many scenarios only.")] = None,
    input_price: Annotated[
        float | None, typer.Option(help="US dollars per million input tokens.")
    ] = None,
    output_price: Annotated[
        float | None, typer.Option(help="US dollars per million output tokens.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Spend without asking first.")] = False,
) -> None:
    """Ask a language model, by the key in ANTHROPIC_API_KEY, what people with given values do.

    Tells the cost first. Answers are kept in --out: the same command goes on where it stopped.
    """
    from regraft.moral.answers import read_answers
    from regraft.moral.elicitation import api_key, check_positive, choose_prices, elicit, plan
    from regraft.moral.library import make_library
    from regraft.moral.scenarios import read_library
    from regraft.support.extras import require

    api_key()  # before anything else, so that nobody confirms what cannot be sent
    check_positive(concurrency=concurrency)
    prices = choose_prices(model, input_price, output_price)
    with session.working("reading the scenarios"):
        require("anthropic", "elicit")
        library = make_library() if scenarios is None else read_library(scenarios)
        todo = plan(library, model=model, out=out, limit=limit)
    if scenarios is None:
        session.note(
            f"No --scenarios given: these are {len(library.scenarios)} generated ones, made from "
            "templates."
        )
    session.note(_offer(todo, model, prices))
    if todo.questions and not yes and not _confirm(session):
        session.say("Nothing was sent.")
        return
    asking = {"model": model, "out": out, "concurrency": concurrency, "limit": limit}
    with session.counting(f"asking {model}", "questions") as meter:
        elicited = elicit(library, **asking, on_count=meter)  # type: ignore[arg-type]
    answers = read_answers(elicited.path, library, model=model)
    document = _show(session, elicited, answers, prices)
    document["library"] = {"origin": library.origin, "checksum": library.checksum}
    session.finish(document, [elicited.path], read=[scenarios])


def _offer(todo: Plan, model: str, prices: Prices | None) -> str:
    """Say what would be asked, and what it may cost."""
    from regraft.moral.elicitation import dollars, estimate

    asked = f"{len(todo.questions):,} questions to ask {model}, {todo.cached:,} answered before"
    if not todo.questions:
        return f"{asked}."
    tokens = estimate(todo.questions)
    text = f"{asked}: about {tokens.input:,} input and {tokens.output:,} output tokens"
    if prices is None:
        return f"{text}; --input-price and --output-price would tell the cost."
    return f"{text}, about {dollars(prices.cost(tokens))}."


def _confirm(session: Session) -> bool:
    """Ask at the terminal whether to go on; ``ValueError`` if nobody can be asked."""
    silent = "--json" if session.as_json else "--quiet" if session.quiet else None
    if silent or not sys.stdin.isatty():
        why = f"{silent} leaves no room to ask" if silent else "there is no terminal to ask at"
        raise ValueError(f"asking a model costs money and {why}: agree with --yes.")
    try:
        return typer.confirm("Send them?")
    except typer.Abort:  # the end of the input, or Ctrl-C
        return False


def _show(
    session: Session, elicited: Elicited, answers: Answers, prices: Prices | None
) -> dict[str, Any]:
    """Print what was asked and what it cost; returns it as a document."""
    from regraft.moral.elicitation import Tokens, dollars
    from regraft.support.table import percent

    now = Tokens(elicited.input_tokens, elicited.output_tokens)
    ever = Tokens(answers.input_tokens, answers.output_tokens)
    parts = {
        "this run": (elicited.asked, elicited.refused, now),
        "all answers": (answers.answered + answers.refused, answers.refused, ever),
    }
    rows, documents = [], {}
    for name, (asked, refused, tokens) in parts.items():
        cost = None if prices is None else prices.cost(tokens)
        counts = [f"{number:,}" for number in (asked, refused, tokens.input, tokens.output)]
        rows.append((name, *counts, "unknown" if cost is None else dollars(cost)))
        used = {"asked": asked, "refused": refused, "tokens": tokens._asdict(), "dollars": cost}
        documents[name] = used
    columns = "", "asked", "refused or unclear", "input tokens", "output tokens", "cost"
    session.table(columns, rows)
    bias = answers.position_bias
    session.say(
        f"Taken from earlier runs: {elicited.cached:,}.",
        "Position bias: unknown, as no question was answered in both orders."
        if bias is None
        else f"Position bias: {percent(bias)} of the pairs of orders disagree on the action.",
        answers.mechanism,
    )
    return {
        "model": answers.model,
        "mechanism": answers.mechanism,
        "cached": elicited.cached,
        "this_run": documents["this run"],
        "all_answers": documents["all answers"],
        "unasked": answers.unasked,
        "position_bias": bias,
    }
