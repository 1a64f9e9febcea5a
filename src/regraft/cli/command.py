"""One decorator makes a function a command: shared options, a session, errors in one sentence."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from importlib import import_module
from inspect import Parameter
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import typer

from regraft.cli.failures import (
    INTERRUPTED,
    NO_MEMORY,
    complain,
    describe_nameless_error,
    heeding_interrupts,
    shorten,
)
from regraft.cli.option_words import option_names, speak_of_options
from regraft.cli.options import Html, Json, Quiet
from regraft.cli.output_folder import check_output
from regraft.cli.session import WARNINGS, Invocation, Session
from regraft.cli.usage import OneSentenceGroup
from regraft.support.extras import MissingExtra
from regraft.support.publishing import name_when_done
from regraft.support.reading import check_file

Body = TypeVar("Body", bound=Callable[..., None])

_TORCH_NO_MEMORY = re.compile("(?i)out of memory|can't allocate memory")  # of torch's messages
RESUMES = "finished work is kept, and the same command goes on from there"

app = typer.Typer(
    cls=OneSentenceGroup,
    help="Classifiers that hold in domains nobody has data from.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 120},  # so that wide terminals show whole summaries
)


def make_group(name: str, help_text: str) -> typer.Typer:
    """Add a group of commands, such as ``regraft embed``, to the app."""
    group = typer.Typer(help=help_text, no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(group, name=name)
    return group


def command(
    name: str | None = None,
    *,
    group: typer.Typer = app,
    resumes: bool = False,
    html: bool = False,
    traced: bool = True,
    loading: str | None = "starting",
) -> Callable[[Body], Body]:
    """Register a function as a command of the ``group``, and return it as it is.

    Its first parameter gets the session, the others are the command's arguments and options, or
    dataclasses of options, to which ``--json``, ``--quiet`` and, with ``html``, ``--html`` are
    added. A command that ``resumes`` keeps finished work when it is interrupted; all others write
    their files at their end. One that is ``traced`` leaves its provenance in ``--out``. ``loading``
    is shown while torch is imported; None imports nothing.
    """

    def register(function: Body) -> Body:
        def run(
            context: typer.Context,
            as_json: bool,
            quiet: bool,
            html: bool | None = None,  # not asked for: the command has no page
            **options: Any,
        ) -> None:
            session = Session(Invocation.of(context), as_json=as_json, quiet=quiet, html=html)
            if loading is not None:
                _import_torch(session, loading)
            if traced:
                session.write_to(options.get("out"))
            try:
                function(session, **_gather(function, options))
            finally:
                session.close()

        group.command(name)(_declare(function, guard(run, resumes=resumes), html=html))
        return function

    return register


def ensure_torch(session: Session) -> None:
    """Import torch, for a command that checks its options before it waits for that."""
    if "torch" not in sys.modules:
        _import_torch(session, "loading torch")


def _import_torch(session: Session, text: str) -> None:
    with session.working(text), heeding_interrupts():
        import_module("torch")


def _own_parameters(function: Callable[..., None]) -> list[Parameter]:
    """List the parameters of a command after the session."""
    _, *own = inspect.signature(function, eval_str=True).parameters.values()
    return own


def _expand(parameter: Parameter) -> list[Parameter]:
    """Return the options that a parameter stands for: one for each field of a group of options."""
    if not is_dataclass(parameter.annotation):
        return [parameter.replace(kind=Parameter.KEYWORD_ONLY)]
    hints = get_type_hints(parameter.annotation, include_extras=True)
    return [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
        for name, default in ((each.name, each.default) for each in fields(parameter.annotation))
    ]


def _gather(function: Callable[..., None], options: dict[str, Any]) -> dict[str, Any]:
    """Put options that belong to a group into it."""
    given = dict(options)
    for parameter in _own_parameters(function):
        if is_dataclass(parameter.annotation):
            own = {each.name: given.pop(each.name) for each in fields(parameter.annotation)}
            given[parameter.name] = parameter.annotation(**own)  # type: ignore[operator]
    return given


def _declare(
    function: Callable[..., None], run: Callable[..., None], *, html: bool
) -> Callable[..., None]:
    """Give ``run`` the name, the help and the options of ``function``, and the shared options."""
    shared: dict[str, Any] = {**({"html": Html} if html else {}), "as_json": Json, "quiet": Quiet}
    parameters = [
        Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context),
        *(each for parameter in _own_parameters(function) for each in _expand(parameter)),
        *(
            Parameter(name, Parameter.KEYWORD_ONLY, default=False, annotation=option)
            for name, option in shared.items()
        ),
    ]
    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    vars(run)["__signature__"] = inspect.Signature(parameters)
    return run


def guard(function: Callable[..., None], *, resumes: bool = False) -> Callable[..., None]:
    """Make a function report warnings, errors and interrupts in one line each."""

    def guarded(**options: Any) -> None:
        out, context = options.get("out"), options.get("context")
        before: dict[str, int] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("default", UserWarning)
            # Columns are matched by name before arrays, which have none, reach the model.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            # Banks are mapped to be read, and nothing writes to them.
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            warnings.showwarning = _show_warnings(context)
            try:
                _check_seed(options.get("seed"))
                for path in options.values():
                    if isinstance(path, Path):
                        _check_name(path)
                        check_file(path)  # reading a pipe never ends, and a new file replaces it
                if (folder := _find_output(options)) is not None:
                    check_output(folder)
                before = _entries(out)
                function(**options)
            except KeyboardInterrupt as stop:
                # What resumes only sometimes says so itself.
                is_kept = resumes and (out is None or out.exists())
                what_stays = str(stop) or (RESUMES if is_kept else _news(out, before))
                complain(f"interrupted: {what_stays}.")
                raise typer.Exit(INTERRUPTED) from None
            except (typer.Exit, BrokenPipeError):  # with the latter, typer ends quietly
                raise
            except (ValueError, RuntimeError, OSError, MemoryError) as error:
                if isinstance(error, RuntimeError) and not _is_foreseen(error):
                    raise
                complain(_sentence(error, context))
                raise typer.Exit(2) from None

    return guarded


def _entries(out: Path | None) -> dict[str, int]:
    """List what the folder ``out`` holds, with the times of the last changes; no hidden files."""
    entries = out.iterdir() if out is not None and out.is_dir() else ()
    return {e.name: e.lstat().st_mtime_ns for e in entries if not e.name.startswith(".")}


def _news(out: Path | None, before: dict[str, int]) -> str:
    """Say what an interrupt left: nothing, unless it came between the first file and the last."""
    new = sorted(name for name, at in _entries(out).items() if before.get(name) != at)
    return f"of its files only {', '.join(new)} in {out} are new" if new else "nothing was written"


def _show_warnings(context: typer.Context | None) -> Callable[..., None]:
    """Make a function that prints warnings and keeps them in the context, for the provenance."""
    shown: list[str] = [] if context is None else context.meta.setdefault(WARNINGS, [])

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        shown.append(_sentence(message, context))
        typer.echo(f"warning: {shown[-1]}", err=True)

    return show


def _is_foreseen(error: RuntimeError) -> bool:
    """Return whether it is no error of the program."""
    return isinstance(error, MissingExtra) or _TORCH_NO_MEMORY.search(str(error)) is not None


def _sentence(problem: BaseException | str, context: typer.Context | None) -> str:
    if isinstance(problem, OSError) and problem.filename is not None:
        return shorten(f"{name_when_done(str(problem.filename))}: {problem.strerror}.")
    if isinstance(problem, OSError) and problem.strerror is not None:  # of no file with a name
        return describe_nameless_error(problem)
    if isinstance(problem, MemoryError | RuntimeError) and not isinstance(problem, MissingExtra):
        return NO_MEMORY
    said = " ".join(str(problem).split()) or f"{type(problem).__name__}."
    return shorten(name_when_done(speak_of_options(said, option_names(context))))


def _check_seed(seed: int | None) -> None:
    if seed is not None and seed < 0:
        raise ValueError(f"seed is {seed}: pass 0 or more.")


def _find_output(options: dict[str, Any]) -> Path | None:
    """Return the folder that results go to, also of a command whose ``--out`` is a file."""
    out, path = options.get("out"), options.get("path")
    return path.parent if out is None and isinstance(path, Path) else out


def _check_name(path: Path) -> None:
    """Refuse a name that no report could show and no JSON could hold."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ValueError(f"the name {str(path)!r} is not text in UTF-8: rename it.") from None
