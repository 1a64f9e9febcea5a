"""A command at work: its console, and how it ends, with its provenance and a report if asked."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import typer

from regraft.cli.console import Console
from regraft.support.extras import require
from regraft.support.publishing import READY
from regraft.support.runs import PROVENANCE, RUN

if TYPE_CHECKING:
    from regraft.support.publishing import Stage
    from regraft.support.runs import SealedRun

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
        self._stage: Stage | None = None
        self._html = html
        self._invocation = invocation
        self._start = time.perf_counter()

    def write_to(self, out: Path | None) -> None:
        """Choose the folder for the provenance and the report.

        Raises ``ValueError`` or ``MissingExtra`` with one sentence if the provenance that is there
        is damaged, or if a report cannot be written.
        """
        # What reads it imports torch, which takes seconds.
        if out is not None and ((out / PROVENANCE).exists() or (out / READY).is_dir()):
            from regraft.report.provenance import read_provenance

            read_provenance(out)
        if self._html:
            if out is None:
                raise ValueError("--html writes report.html into the folder of results: add --out.")
            require("vl_convert", "report")
            require("jinja2", "report")
        self.out = out

    @property
    def stage(self) -> Path | None:
        """The folder to write results to; ``finish`` publishes them in ``out``, all at once.

        None if there is no ``out``. A command that ends without ``finish`` leaves nothing.
        """
        return None if self.out is None else self._open_stage(self.out).path

    def write_json(self, name: str, document: Mapping[str, Any]) -> list[Path]:
        """Write a document into the stage; return its path, or none if there is no ``out``."""
        from regraft.support.files import write_text
        from regraft.support.json_files import dumps

        if self.stage is None:
            return []
        write_text(self.stage / name, dumps(document))
        return [self.stage / name]

    def _open_stage(self, out: Path) -> Stage:
        if self._stage is None:
            from regraft.support.publishing import Stage

            self._stage = Stage(out)
        return self._stage

    def close(self) -> None:
        """Remove what was written, but not published."""
        if self._stage is not None:
            self._stage.close()

    def finish(
        self, document: dict[str, Any], files: Sequence[Path], *, read: Sequence[Path | None] = ()
    ) -> None:
        """Publish the results, the provenance and the report; print the document or name the files.

        ``read`` are the files and folders that the command read; None stands for one not given.
        """
        if self.out is None:
            super().finish(document, files)
            return
        sealed, written, failure = self._publish(self.out, files, [path for path in read if path])
        super().finish(document | {RUN: sealed.id}, written)
        if isinstance(failure, ValueError):
            raise ValueError(f"all is written but the page: {failure}") from failure
        if failure is not None:
            raise failure

    def _publish(
        self, out: Path, files: Sequence[Path], read: Sequence[Path]
    ) -> tuple[SealedRun, list[Path], Exception | None]:
        """Publish what the stage holds; return the run, its files, and why there is no report."""
        from regraft.support.files import exclusive
        from regraft.support.publishing import finish_publication
        from regraft.support.runs import seal_run

        stage = self._open_stage(out)
        sealed = seal_run(stage.path)
        written = [
            out / path.relative_to(stage.path) if path.is_relative_to(stage.path) else path
            for path in files
        ]
        failure: Exception | None = None
        with exclusive(out):
            finish_publication(out, is_alone=True)
            self._write_provenance(out, stage.path, read, sealed)
            written.append(out / PROVENANCE)
            try:
                written += self._write_report(out, stage.path)
            except (ValueError, RuntimeError) as error:
                failure = error  # another result may be damaged: this one is kept all the same
            stage.publish()
        return sealed, written, failure

    def _write_report(self, out: Path, stage: Path) -> list[Path]:
        """Write the report if it is asked for; else tell of one that is from before."""
        page = out / "report.html"
        if self._html:
            with self.working("writing the report"):
                from regraft.report.writing import read_report, render
                from regraft.support.files import write_text

                write_text(stage / page.name, render(read_report(out, stage)))
                return [page]
        if self._html is False and page.is_file():
            self.note(f"{page} is out of date: write it again with regraft report {out}.")
        return []

    def _write_provenance(
        self, out: Path, stage: Path, read: Sequence[Path], results: SealedRun
    ) -> None:
        from regraft.report.provenance import trace, write_provenance

        typed = self._invocation
        seconds = time.perf_counter() - self._start
        provenance = trace(typed.command, typed.options, read, seconds, typed.warnings, results)
        write_provenance(out, typed.name, provenance, stage)


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
            yield from map(str, value if isinstance(value, list | tuple) else [value])
        elif isinstance(value, bool):
            yield parameter.opts[0] if value else parameter.secondary_opts[0]
        else:
            yield from (parameter.opts[0], str(value))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value
