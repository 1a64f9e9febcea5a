"""What all commands of the command line share: the app, common options, errors in one sentence."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from regraft.cli.usage import PROGRAM, WARNINGS, OneSentenceGroup

RESUMES = "finished work is kept, and the same command goes on from there"

app = typer.Typer(
    cls=OneSentenceGroup,
    help="Classifiers that hold in domains nobody has data from.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 120},  # so that wide terminals show whole summaries
)


def among(*values: str) -> Callable[[str], list[str]]:
    """Completion of an option that is one of ``values``, or several with commas between them."""

    def complete(incomplete: str) -> list[str]:
        before, comma, _ = incomplete.rpartition(",")
        return [f"{before}{comma}{value}" for value in values]

    return complete


def one_of(*values: str) -> str:
    """The values in a help text: ``a, b or c``."""
    *first, last = values
    return f"{', '.join(first)} or {last}" if first else last


# Not even readability is left to typer, which knows nothing of banks and ready benchmarks.
Folder = typer.Option(help="Folder for the files.", readable=False)
Out = Annotated[Path | None, Folder]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", help="Print neither progress nor results, only what is wrong.")
]
Html = Annotated[
    bool,
    typer.Option("--html", help="Also write report.html, a page to look at and to pass on."),
]
Device = Annotated[
    str, typer.Option(help="Where torch computes.", autocompletion=among("cpu", "cuda", "mps"))
]
Seed = Annotated[int, typer.Option(help="Of all that is drawn at random.")]
HoldoutSeed = Annotated[
    int | None,
    typer.Option(help="Of the rows held out. Default: every third, as they stand."),
]
FIRST_TRIAL = "Number of the trial, or of the first of several."
Label = Annotated[str, typer.Option(help="Column of labels.")]
Domain = Annotated[str, typer.Option(help="Column of domains.")]
Radius = Annotated[float, typer.Option(help="Largest shift to prepare for, in nats.")]


def command(
    name: str | None = None, *, group: typer.Typer = app, resumes: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command of the ``group``, guarded.

    One that ``resumes`` keeps finished work when it is interrupted; all others write their files
    at their end.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        return group.command(name)(guard(function, resumes=resumes))

    return register


def guard(function: Callable[..., None], *, resumes: bool = False) -> Callable[..., None]:
    """A command that reports warnings, errors and interrupts in one line each."""

    @functools.wraps(function)
    def guarded(**options: Any) -> None:
        out = options.get("out")
        before: dict[str, int] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("default", UserWarning)
            # Columns are matched by name before arrays, which have none, reach the model.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            warnings.showwarning = _teller(options.get("context"))
            try:
                _check_seed(options.get("seed"))
                _check_folder(out)
                before = _entries(out)
                function(**options)
            except KeyboardInterrupt:
                what_stays = RESUMES if resumes else _news(out, before)
                typer.echo(f"{PROGRAM}: interrupted: {what_stays}.", err=True)
                raise typer.Exit(130) from None
            except (typer.Exit, BrokenPipeError):  # with the latter, typer ends quietly
                raise
            except (ValueError, RuntimeError, OSError, MemoryError) as error:
                typer.echo(f"{PROGRAM}: {_sentence(error)}", err=True)
                raise typer.Exit(2) from None

    return guarded


def _entries(out: Path | None) -> dict[str, int]:
    """What the folder ``out`` holds, with the times of the last changes; no hidden files."""
    entries = out.iterdir() if out is not None and out.is_dir() else ()
    return {e.name: e.lstat().st_mtime_ns for e in entries if not e.name.startswith(".")}


def _news(out: Path | None, before: dict[str, int]) -> str:
    """What an interrupt left: nothing, unless it came between the first file and the last."""
    new = sorted(name for name, at in _entries(out).items() if before.get(name) != at)
    return f"of its files only {', '.join(new)} in {out} are new" if new else "nothing was written"


def _teller(context: typer.Context | None) -> Callable[..., None]:
    """What tells a warning, and keeps it for the provenance of commands that have a context."""
    told: list[str] = [] if context is None else context.meta.setdefault(WARNINGS, [])

    def tell(message: Warning | str, *_: Any, **__: Any) -> None:
        told.append(_sentence(message))
        typer.echo(f"warning: {told[-1]}", err=True)

    return tell


def _sentence(problem: BaseException | str) -> str:
    if isinstance(problem, OSError) and problem.filename is not None:
        return f"{problem.filename}: {problem.strerror}."
    return " ".join(str(problem).split()) or f"{type(problem).__name__}."


def _check_seed(seed: int | None) -> None:
    if seed is not None and seed < 0:
        raise ValueError(f"seed is {seed}: pass 0 or more.")


def _check_folder(out: Path | None) -> None:
    """Refuse an --out that cannot be written to before anything is computed."""
    if out is None:
        return
    nearest = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    if not nearest.is_dir():
        raise ValueError(f"{nearest} is a file: choose another folder with --out.")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f"{nearest} is not writable: choose another folder with --out.")
