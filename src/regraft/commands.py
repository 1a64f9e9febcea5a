"""What all commands of the command line share: the app, common options, errors in one sentence."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="Classifiers that hold in domains nobody has data from.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


Device = Annotated[str, typer.Option(help="Where torch computes.")]
Folder = typer.Option(help="Folder for the files.", readable=False)
Out = Annotated[Path | None, Folder]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Register a command of the app, guarded."""
    return app.command()(guard(function))


def guard(function: Callable[..., None]) -> Callable[..., None]:
    """A command that reports warnings and errors in one line each."""

    @functools.wraps(function)
    def guarded(**options: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("default", UserWarning)
            # Columns are matched by name before arrays, which have none, reach the model.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            warnings.showwarning = _show_warning
            try:
                _check_folder(options.get("out"))
                function(**options)
            except KeyboardInterrupt:
                typer.echo("regraft: interrupted.", err=True)
                raise typer.Exit(130) from None
            except BrokenPipeError:  # the reader of our output has left: typer ends quietly
                raise
            except (ValueError, RuntimeError, OSError, MemoryError) as error:
                typer.echo(f"regraft: {_sentence(error)}", err=True)
                raise typer.Exit(2) from None

    return guarded


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"warning: {_sentence(message)}", err=True)


def _sentence(problem: BaseException | str) -> str:
    if isinstance(problem, OSError) and problem.filename is not None:
        return f"{problem.filename}: {problem.strerror}."
    return " ".join(str(problem).split()) or f"{type(problem).__name__}."


def _check_folder(out: Path | None) -> None:
    """Refuse an --out that cannot be written to before anything is computed."""
    if out is None:
        return
    nearest = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    if not nearest.is_dir():
        raise ValueError(f"{nearest} is a file: choose another folder with --out.")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f"{nearest} is not writable: choose another folder with --out.")
