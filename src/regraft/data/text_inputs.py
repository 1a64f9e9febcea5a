"""Texts to embed, with labels and domains, from a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from regraft.data.bank_writer import Input
from regraft.data.columns import Role
from regraft.data.input_blocks import Block, Census, InputSource, Survey
from regraft.data.table_rows import check_table, read_cell, read_rows
from regraft.support.digests import digest_text
from regraft.support.prefetch import ahead


class TextInputs(InputSource[Sequence[str]]):
    """The rows of a .csv, .jsonl (both also .gz) or .parquet file, read as they are needed."""

    kind = "texts"
    block_rows = 1024

    def __init__(
        self, path: Path, *, text: str = "text", label: str = "label", domain: str = "domain"
    ) -> None:
        check_table(path)
        self._path = path
        self._roles = Role(text, "text"), Role(label, "label"), Role(domain, "domain")

    def survey(self, folder: Path) -> Survey:
        """Read the table once; nothing is kept in ``folder``."""
        census = Census()
        for _, text, label, domain in self._rows():
            census.add(label, domain, digest_text(text))
        listing = census.survey("texts")
        if not listing.rows:
            raise ValueError(f"{self._path} has no rows: add data below the header.")
        return listing

    def blocks(self, folder: Path, first: int) -> Iterator[Block[Sequence[str]]]:
        """Yield blocks of rows, keyed by their row numbers."""
        rows = islice(self._rows(), first, None)
        return ahead(self._gather(rows))

    def _rows(self) -> Iterator[tuple[int, str, str, str]]:
        """Yield number, text, label and domain of every row."""
        for row in read_rows(self._path, self._roles):
            text, label, domain = (
                read_cell(cell, role, row.where, is_name=role.option != "text")
                for cell, role in zip(row.cells, self._roles, strict=True)
            )
            yield row.number, text, label, domain

    def _gather(self, rows: Iterator[tuple[int, str, str, str]]) -> Iterator[Block[Sequence[str]]]:
        while rows_here := list(islice(rows, self.block_rows)):
            numbers, texts, labels, domains = zip(*rows_here, strict=True)
            inputs = tuple(map(Input, numbers, map(digest_text, texts)))
            yield Block(list(texts), inputs, labels, domains)
