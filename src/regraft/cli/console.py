"""What the commands show: results, progress and JSON, each on its own stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regraft.support.plain_text import show_plainly

# rich and the library are imported where they are used, so that --help does not wait for them.
if TYPE_CHECKING:
    from rich.console import RenderableType

    from regraft.core.game import Round
    from regraft.support.progress import Meter
    from regraft.support.table import Cell, Table
    from regraft.support.thumbnails import Pixels

_UPDATE_EVERY = 0.5  # seconds, in a terminal
_LINE_EVERY = 10.0  # seconds between lines elsewhere
_ANY_WIDTH = 10_000  # of a table that is measured, which its console would else clip


class Console:
    """Results go to stdout, or nowhere when it holds JSON; progress then goes to stderr.

    A ``quiet`` one shows neither, and of results the JSON document alone.
    """

    def __init__(self, as_json: bool, quiet: bool = False) -> None:
        from rich.console import Console as RichConsole

        self.as_json, self.quiet = as_json, quiet
        self._rounds = 0  # that were shown
        self._result = RichConsole(quiet=quiet or as_json, markup=False, highlight=False)
        self._progress = RichConsole(stderr=as_json, quiet=quiet, markup=False, highlight=False)

    @contextmanager
    def working(self, message: str) -> Iterator[Callable[[str], None]]:
        """Show a spinner, or plain lines without a terminal; yields a setter of its message."""
        from rich.text import Text

        if self.is_live:
            with self._progress.status(Text(show_plainly(f"{message} ..."))) as status:
                yield lambda step: status.update(Text(show_plainly(f"{step} ...")))
        else:
            self.note(f"{message} ...")
            yield lambda step: self.note(f"{step} ...")

    @contextmanager
    def counting(self, message: str, things: str) -> Iterator[Meter]:
        """Show progress as ``working`` does; yields what takes the number done and the total."""
        from regraft.support.progress import Meter

        with self.working(message) as tell:
            yield Meter(tell, things, _UPDATE_EVERY if self.is_live else _LINE_EVERY)

    @property
    def is_live(self) -> bool:
        """Whether progress is seen in a terminal, where ``live`` can draw."""
        return self._progress.is_terminal and not self._progress.quiet

    @contextmanager
    def live(self, draw: Callable[[], RenderableType]) -> Iterator[None]:
        """Show what ``draw`` returns, asked from another thread twice a second, while inside."""
        from rich.live import Live

        live = Live(
            get_renderable=draw, console=self._progress, refresh_per_second=2, transient=True
        )
        with live:
            yield

    def note(self, text: str) -> None:
        """Print one line of progress."""
        self._progress.print(show_plainly(text), soft_wrap=not self._progress.is_terminal)

    def round(self, played: Round, kind: str = "risk") -> None:
        """Print one round of the game: the ``kind`` of loss before and after the answer to it."""
        self._rounds += 1
        self.note(
            f"  round {self._rounds}: {kind} in the worst domain found "
            f"{played.attack_value:.3f} nats; after the model's answer, at most "
            f"{max(played.risks):.3f} in all found so far"
        )

    def say(self, *sentences: str) -> None:
        """Print results in words, one paragraph each."""
        for sentence in sentences:
            self._result.print(show_plainly(sentence), soft_wrap=not self._result.is_terminal)

    def table(self, columns: Sequence[str], *sections: Iterable[Sequence[Cell]]) -> None:
        """Print rows under ``columns``, the sections apart."""
        from regraft.support.table import Table

        self._print(Table.from_sections("", columns, *sections))

    def _print(self, table: Table) -> None:
        from rich.console import Console as RichConsole

        # A number cut off at the edge of the screen is worse than a broken line, and a console
        # prints nothing that is wider than itself.
        wide = RichConsole(
            file=self._result.file,
            width=_ANY_WIDTH,
            quiet=self._result.quiet,
            markup=False,
            highlight=False,
            force_terminal=self._result.is_terminal,
            color_system="auto" if self._result.is_terminal else None,
        )
        shown = table.terminal()
        wide.width = max(self._result.width, wide.measure(shown).maximum)
        wide.print(shown)

    def tables(self, tables: Iterable[Table], before: str = "") -> None:
        """Print tables under their titles, which follow the text ``before``."""
        for table in tables:
            self.say(f"{before}{table.title}")
            self._print(table)

    @property
    def draws(self) -> bool:
        """Whether results are seen in a terminal with colours, where ``pictures`` can draw."""
        return self._result.is_terminal and self._result.color_system is not None

    def pictures(self, pictures: Sequence[Pixels]) -> None:
        """Draw as many small pictures as fit into a line."""
        from regraft.support.thumbnails import BLOCKS, draw_blocks

        fit = max(1, (self._result.width + 1) // (BLOCKS + 1))
        self._result.print(draw_blocks(pictures[:fit]))

    def document(self, text: str) -> None:
        """Print a text in another language, such as Markdown, exactly as it is; not with JSON.

        It goes to a file or a clipboard, so that nothing else is shown after it.
        """
        if not self._result.quiet:
            typer.echo(text)
            self._result.quiet = self._progress.quiet = True

    def finish(self, document: dict[str, Any], files: Sequence[Path]) -> None:
        """Print the JSON document, or name the files written."""
        if self.as_json:
            from regraft.support.json_files import dumps

            typer.echo(dumps(document | {"files": [str(file) for file in files]}, indent=None))
        elif files:
            self.say(f"Written: {', '.join(map(str, files))}")
