"""Texts to embed from a table, with labels and domains if it has them, or from lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from regraft.data.bank_writer import Input
from regraft.data.columns import Role
from regraft.data.input_blocks import Block, Census, InputSource, Survey, Tags
from regraft.data.table_rows import Row, check_table, read_cell, read_rows, text_lines
from regraft.support.digests import digest_text
from regraft.support.prefetch import ahead

_Text = tuple[int, str, str | None, str | None]  # number, text, label and domain


class TextInputs(InputSource[Sequence[str]]):
    """The rows of a .csv, .jsonl (both also .gz) or .parquet file, read as they are needed.

    Without ``label`` or ``domain``, no such column is read. The texts of a .txt file are its lines,
    which have neither; blank ones are passed over.
    """

    kind = "texts"

    def __init__(
        self,
        path: Path,
        *,
        text: str = "text",
        label: str | None = "label",
        domain: str | None = "domain",
        block_rows: int = 1024,
    ) -> None:
        check_texts(path)
        self.block_rows = block_rows
        self._path = path
        self._text = Role(text, "text")
        self._tags = Tags(None, None) if is_plain(path) else Tags(label, domain)

    def survey(self, folder: Path) -> Survey:
        """Read the table once; nothing is kept in ``folder``."""
        census = Census()
        for _, text, label, domain in self._rows():
            census.add(label, domain, digest_text(text))
        listing = census.survey("texts")
        if not listing.rows:
            where = "" if is_plain(self._path) else " below the header"
            raise ValueError(f"{self._path} has no rows: add data{where}.")
        return listing

    def blocks(self, folder: Path, first: int) -> Iterator[Block[Sequence[str]]]:
        """Yield blocks of rows, keyed by their row numbers."""
        return ahead(map(self.read, self.parts(folder, first)))

    def parts(self, folder: Path, first: int) -> Iterator[list[_Text]]:
        """Yield the rows of blocks."""
        rows = islice(self._rows(), first, None)
        while part := list(islice(rows, self.block_rows)):
            yield part

    def read(self, part: list[_Text]) -> Block[Sequence[str]]:
        """Return the texts of a block, keyed by their row numbers."""
        numbers, texts, labels, domains = zip(*part, strict=True)
        inputs = tuple(map(Input, numbers, map(digest_text, texts)))
        return Block(list(texts), inputs, labels, domains)

    def _rows(self) -> Iterator[_Text]:
        """Yield number, text, label and domain of every row."""
        for row in read_text_rows(self._path, [self._text, *self._tags.roles]):
            text = read_cell(row.cells[0], self._text, row.where, is_name=False)
            yield row.number, text, *self._tags.read(row.cells[1:], row.where)


def is_plain(path: Path) -> bool:
    """Return whether ``path`` is named as a file of one text a line."""
    return path.name.lower().endswith((".txt", ".txt.gz"))


def check_texts(path: Path) -> None:
    """Raise an error with one sentence unless ``path`` is a table or a .txt file."""
    if not (is_plain(path) and path.is_file()):
        check_table(path)


def read_text_rows(path: Path, roles: Sequence[Role]) -> Iterator[Row]:
    """Yield the rows of a table, or of a .txt file, whose lines are in the first of the roles."""
    if not is_plain(path):
        yield from read_rows(path, roles)
        return
    for number, line in enumerate(text_lines(path), 1):
        if line.strip():
            yield Row(number, f"line {number} of {path}", [line.rstrip("\r\n")])
