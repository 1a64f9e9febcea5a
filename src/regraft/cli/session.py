"""A command at work: how it ends, with its provenance and, if asked for, a report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import typer

from regraft.cli.console import Screen
from regraft.cli.usage import WARNINGS
from regraft.report.provenance import read_provenance, trace, write_provenance
from regraft.support.extras import require

_TALK = ("as_json", "quiet")  # options that change what is said, not what is done


@dataclass(frozen=True)
class Run:
    """What the user asked for, and where the results go."""

    name: str  # of the command, such as "moral run"
    command: tuple[str, ...]
    options: dict[str, Any]
    data: tuple[Path, ...]
    out: Path | None
    html: bool
    start: float  # of time.perf_counter
    warnings: list[str]  # told so far

    @classmethod
    def of(
        cls,
        context: typer.Context,
        out: Path | None,
        *,
        html: bool = False,
        data: Iterable[Path] = (),
    ) -> Self:
        """The command being run, which reads the files and folders ``data``.

        Typer hands the ``context`` to a command with a parameter of that type. Raises
        ``ValueError`` or ``MissingExtra`` with one sentence if a report cannot be written, or if
        the provenance in ``out`` is damaged.
        """
        if out is not None:
            read_provenance(out)
        if html:
            if out is None:
                raise ValueError("--html writes report.html into the folder of results: add --out.")
            require("vl_convert", "report")
            require("jinja2", "report")
        return cls(
            context.command_path.partition(" ")[2],
            (*context.command_path.split(), *_words(context)),
            {name: _plain(value) for name, value in context.params.items() if name not in _TALK},
            tuple(data),
            out,
            html,
            time.perf_counter(),
            context.meta.setdefault(WARNINGS, []),
        )

    def finish(self, screen: Screen, document: dict[str, Any], files: Sequence[Path]) -> None:
        """Write the provenance and the report, then print the document or name the files."""
        written = list(files)
        if self.out is not None:
            seconds = time.perf_counter() - self.start
            provenance = trace(self.command, self.options, self.data, seconds, self.warnings)
            written.append(write_provenance(self.out, self.name, provenance))
        try:
            if self.html and self.out is not None:
                with screen.working("writing the report"):
                    from regraft.report import write_report

                    written.append(write_report(self.out))
        finally:  # another result in the folder may be damaged: this one is told all the same
            screen.finish(document, written)


def _words(context: typer.Context) -> Iterator[str]:
    """The arguments and options that the user gave, in the order of the help."""
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if name in _TALK or source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[name]
        if parameter.param_type_name == "argument":
            yield str(value)
        elif isinstance(value, bool):
            yield parameter.opts[0] if value else parameter.secondary_opts[0]
        else:
            yield from (parameter.opts[0], str(value))


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value
