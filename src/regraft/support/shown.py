"""Results as people see them: in a terminal, in a notebook, and as a data frame."""

from __future__ import annotations

from html import escape
from textwrap import fill
from typing import Any

from regraft.support.table import Table

_WIDTH = 88  # of a line of a repr


class ShownResult:
    """Base of results that say in words what they are, and have a table of numbers.

    Dataclasses pass ``repr=False``, or else they print all of their fields.
    """

    def paragraphs(self) -> tuple[str, ...]:
        """Return the result in plain words, what matters most first."""
        raise NotImplementedError

    def summary(self) -> str:
        """Return the result in plain words, a line for each paragraph."""
        return "\n".join(self.paragraphs())

    def table(self) -> Table:
        """Return the numbers to look at first."""
        raise NotImplementedError

    def headline(self) -> tuple[str, ...]:
        """Return the paragraphs of the summary that come first."""
        return self.paragraphs()[:1]

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame, with all digits (needs the extra ``frames``)."""
        return self.table().frame()

    def __repr__(self) -> str:
        said = (
            fill(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")
            for text in self.headline()
        )
        return "\n".join([type(self).__name__, *said])

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the whole summary, then the table."""
        said = [f"<p>{escape(text)}</p>" for text in self.paragraphs()]
        table = self.table()
        shown = [table.html()] if table.rows else []
        return "\n".join([f"<p><strong>{type(self).__name__}</strong></p>", *said, *shown])
