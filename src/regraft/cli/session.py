"""A command at work: its console, and how it ends, with its provenance and a report if asked."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import typer

from regraft.cli.console import Console
from regraft.support.extras import require

WARNINGS = "regraft.warnings"  # in the context of a command: the list of those shown
_TALK = ("as_json", "quiet")  # options that change what is said, not what is done


@dataclass(frozen=True)
class Invocation:
    """The command that a user typed."""

    name: str  # such as "moral run"
    command: tuple[str, ...]  # its words
    options: dict[str, Any]  # with their defaults
    warnings: list[str]  # shown so far

    @classmethod
    def of(cls, context: typer.Context) -> Self:
        """Read it from the context that typer hands to a command."""
        return cls(
            context.command_path.partition(" ")[2],
            (*context.command_path.split(), *_words(context)),
            {name: _plain(value) for name, value in context.params.items() if name not in _TALK},
            context.meta.setdefault(WARNINGS, []),
        )


class Session(Console):
    """The console of one command, which also knows where its results go.

    ``out`` is the folder for its provenance and its report, None for neither. ``html`` says whether
    a report is written; it is None for commands that have no part in one.
    """

    def __init__(
        self,
        invocation: Invocation,
        *,
        as_json: bool = False,
        quiet: bool = False,
        html: bool | None = None,
    ) -> None:
        super().__init__(as_json, quiet)
        self.out: Path | None = None
        self._html = html
        self._invocation = invocation
        self._start = time.perf_counter()

    def write_to(self, out: Path | None) -> None:
        """Choose the folder for the provenance and the report.

        Raises ``ValueError`` or ``MissingExtra`` with one sentence if the provenance that is there
        is damaged, or if a report cannot be written.
        """
        if out is not None:
            from regraft.report.provenance import read_provenance

            read_provenance(out)
        if self._html:
            if out is None:
                raise ValueError("--html writes report.html into the folder of results: add --out.")
            require("vl_convert", "report")
            require("jinja2", "report")
        self.out = out

    def finish(
        self, document: dict[str, Any], files: Sequence[Path], *, read: Sequence[Path | None] = ()
    ) -> None:
        """Write the provenance and the report, then print the document or name the files.

        ``read`` are the files and folders that the command read; None stands for one not given.
        """
        written = list(files)
        if self.out is not None:
            written.append(self._write_provenance(self.out, [path for path in read if path]))
        try:
            if self._html and self.out is not None:
                with self.working("writing the report"):
                    from regraft.report import write_report

                    written.append(write_report(self.out))
            elif self._html is False and self.out and (self.out / "report.html").is_file():
                self.note(
                    f"{self.out / 'report.html'} is from before: write it again with regraft "
                    f"report {self.out}."
                )
        finally:  # another result in the folder may be damaged: this one is shown all the same
            super().finish(document, written)

    def _write_provenance(self, out: Path, read: Sequence[Path]) -> Path:
        from regraft.report.provenance import trace, write_provenance

        typed = self._invocation
        seconds = time.perf_counter() - self._start
        provenance = trace(typed.command, typed.options, read, seconds, typed.warnings)
        return write_provenance(out, typed.name, provenance)


def announce_replacement(session: Session, out: Path) -> None:
    """Say that the model in ``out`` will be replaced, if there is one."""
    from regraft.estimators.model_files import is_model

    if is_model(out / "model"):
        session.note(f"{out / 'model'} holds a model already, which the new one will replace.")


def _words(context: typer.Context) -> Iterator[str]:
    """List the arguments and options that the user gave, in the order of the help."""
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if name in _TALK or source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[name]
        if parameter.param_type_name == "argument":
            yield from map(str, value if isinstance(value, list) else [value])
        elif isinstance(value, bool):
            yield parameter.opts[0] if value else parameter.secondary_opts[0]
        else:
            yield from (parameter.opts[0], str(value))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value
