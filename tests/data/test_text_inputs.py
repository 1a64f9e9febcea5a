"""Tables of texts: every format, row by row, and one sentence for what cannot be read."""

import gzip
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regraft.data.columns import Role, TableError
from regraft.data.table_rows import read_rows
from regraft.data.text_inputs import TextInputs
from tests.helpers.errors import refused
from tests.helpers.tables import write_columns

Rows = Sequence[tuple[Any, Any, Any]]  # text, label, domain
ROWS: Rows = [
    ("good, really", "pos", "books"),
    ('he said "no"\nand left', "neg", "books"),
    ("été 🎈", "pos", "films"),
    ("bad", "neg", "films"),
]
FORMATS = ("t.csv", "t.jsonl", "t.csv.gz", "t.jsonl.gz", "t.parquet")
NAMES = ("text", "label", "domain")


def write(path: Path, rows: Rows = ROWS, names: Sequence[str] = NAMES) -> Path:
    """The same rows in the format that the name tells."""
    return write_columns(path, {name: [row[i] for row in rows] for i, name in enumerate(names)})


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_texts(tmp_path: Path, name: str) -> None:
    texts = TextInputs(write(tmp_path / name))
    listing = texts.survey(tmp_path)
    assert (listing.rows, listing.notes) == (4, ())
    assert (listing.classes, listing.domains) == (("neg", "pos"), ("books", "films"))
    assert listing.digest == TextInputs(write(tmp_path / "reference.csv")).survey(tmp_path).digest
    (block,) = texts.blocks(tmp_path, 0)
    assert block.content == [row[0] for row in ROWS]
    assert block.labels == ("pos", "neg", "pos", "neg")
    assert block.domains == ("books", "books", "films", "films")
    assert [each.key for each in block.inputs] == [1, 2, 3, 4]
    assert block.inputs[3].sha256 == hashlib.sha256(b"bad").hexdigest()
    assert block.skipped == ()


@pytest.mark.parametrize("name", FORMATS)
def test_blocks_start_anywhere(tmp_path: Path, name: str) -> None:
    rows = [(f"text {i}", i % 3, "ab"[i % 2]) for i in range(2500)]
    names = ("review", "stars", "market")
    path = write(tmp_path / name, rows, names)
    texts = TextInputs(path, **dict(zip(NAMES, names, strict=True)))
    assert texts.survey(tmp_path).classes == (0, 1, 2)
    blocks = list(texts.blocks(tmp_path, 1024))
    assert [len(block.content) for block in blocks] == [1024, 452]
    assert blocks[0].content[0] == "text 1024" and blocks[0].inputs[0].key == 1025
    assert list(texts.blocks(tmp_path, 2500)) == []


@given(
    cells=st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")).filter(
                str.strip
            ),
            st.sampled_from(["x", "y,z", '"']),
        ),
        min_size=1,
        max_size=8,
    ),
    name=st.sampled_from(FORMATS),
)
def test_any_text_survives(
    cells: list[tuple[str, str]], name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Spaces at the beginning of a cell apart, which tables in CSV may have for looks."""
    folder = tmp_path_factory.mktemp("texts")
    rows = [(text.lstrip(" "), label, "d") for text, label in cells]
    (block,) = TextInputs(write(folder / name, rows)).blocks(folder, 0)
    assert block.content == [row[0] for row in rows]
    assert block.labels == tuple(row[1] for row in rows)


def test_a_text_changed_or_moved_is_another_listing_and_gaps_are_told(tmp_path: Path) -> None:
    digests = {
        TextInputs(write(tmp_path / "t.csv", rows)).survey(tmp_path).digest
        for rows in (
            ROWS,
            ROWS[::-1],
            ROWS[:3],
            [("Good, really", "pos", "books"), *ROWS[1:]],
            [("good, really", "neg", "books"), *ROWS[1:]],
        )
    }
    assert len(digests) == 5
    (note,) = TextInputs(write(tmp_path / "t.csv", ROWS[:3])).survey(tmp_path).notes
    assert "there are no texts of class 'neg' in 'films'" in note
    for name in ("t.csv", "t.jsonl"):
        path = write(tmp_path / name, [("a", "x", "d")])
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\n\n"))
        assert TextInputs(path).survey(tmp_path).rows == 1


def test_lines_of_text_and_tables_of_texts_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes("\ufeffgood, really\r\n\n  \nété 🎈\nbad".encode())
    texts = TextInputs(path)
    listing = texts.survey(tmp_path)
    assert (listing.rows, listing.classes, listing.domains) == (3, None, None)
    (block,) = texts.blocks(tmp_path, 0)
    assert block.content == ["good, really", "été 🎈", "bad"]
    assert [each.key for each in block.inputs] == [1, 4, 5]
    assert block.labels == block.domains == (None,) * 3
    table = write(tmp_path / "t.csv", [("a", "x", "d"), ("b", "x", "d")])
    listing = TextInputs(table, label=None).survey(tmp_path)
    assert (listing.classes, listing.domains, listing.columns) == (None, ("d",), ["domain"])
    alone = write(tmp_path / "alone.jsonl", [("a",), ("b",)], names=["text"])  # type: ignore[list-item]
    one = TextInputs(alone, label=None, domain=None).survey(tmp_path)
    other = TextInputs(table, label=None, domain=None).survey(tmp_path)
    assert one == other and one.columns == []
    path.write_text("\n\n")
    with refused("has no rows: add data", path=path):
        TextInputs(path).survey(tmp_path)


HEADER = b"text,label,domain\n"
PLAIN = b'{"text": "a", "label": 1, "domain": 2}\n'
REFUSED: list[tuple[str, bytes, str]] = [
    ("t.csv", HEADER + b"a,x,d\n,x,d\n", "row 2 (line 3) of {path} has no text (column 'text')"),
    ("t.csv", HEADER + b" \t,x,d\n", "row 1 (line 2) of {path} has no text"),
    ("t.csv", HEADER + b"a,,d\n", "row 1 (line 2) of {path} has no label (column 'label')"),
    ("t.csv", HEADER + b"a,x,\n", "row 1 (line 2) of {path} has no domain"),
    ("t.csv", HEADER + b"a\0b,x,d\n", "text of row 1 (line 2) of {path} holds a NUL character"),
    ("t.csv", HEADER + b"a,x\0,d\n", "label of row 1 (line 2) of {path} holds a NUL character"),
    ("t.csv", HEADER, "{path} has no rows"),
    ("t.csv", HEADER + b"ok,x,d\ncaf\xe9,x,d\n", "line 3 of {path} is not text in UTF-8"),
    ("t.csv", "text,label,domain\na,x,d\n".encode("utf-16"), "line 1 of {path} is not text"),
    ("t.csv", b"", "{path} is empty"),
    ("t.csv", HEADER + b"a,x\n", "row 1 (line 2) of {path} has 2 cells"),
    ("t.csv", HEADER + b'"a,x,d\n', "line 2 of {path} is not CSV"),
    ("t.csv", b"text,label,place\na,x,d\n", "no domain column 'domain' (it has 'text', 'label'"),
    ("t.csv", HEADER + b"a" * 140_000 + b",x,d\n", "write the table as .jsonl"),
    ("t.jsonl", PLAIN + b"no\n", "line 2 of {path} is not a JSON"),
    ("t.jsonl", PLAIN + b'{"label": 1, "domain": 2}', "row 2 (line 2) of {path} has no text"),
    ("t.jsonl", b"[1]\n", "line 1 of {path} is not a JSON object"),
    ("t.jsonl", b'{"text": "a"}\n', "no label column 'label' (it has 'text')"),
    ("t.jsonl", b'{"text": 5, "label": 1, "domain": 2}', "row 1 (line 1) of {path} holds a int"),
    ("t.jsonl", b'{"text": null, "label": 1, "domain": 2}', "has no text"),
    ("t.jsonl", b'{"text": "a", "label": NaN, "domain": 2}', "has no label"),
    ("t.jsonl", b'{"text": "a", "label": [1], "domain": 2}', "holds a list as its label"),
    ("t.jsonl", b'{"text": "\\ud800", "label": 1, "domain": 2}', "half of a surrogate pair"),
    ("t.jsonl", b'\n{"text": "\xff"}', "line 2 of {path} is not text in UTF-8"),
    ("t.csv.gz", HEADER, "damaged or not gzipped"),
    ("t.csv.gz", gzip.compress(HEADER + b"a,x,d\n", mtime=0)[:-9], "damaged or not gzipped"),
    ("t.parquet", b"PAR1", "damaged or not a Parquet file"),
    ("t.xlsx", b"a", "is a spreadsheet: save it as CSV (.csv), and pass that file"),
    ("t.doc", b"a", "does not end in .csv, .tsv, .jsonl, .parquet, .csv.gz, .tsv.gz, .jsonl.gz"),
]


@pytest.mark.parametrize(("name", "content", "message"), REFUSED)
def test_files_that_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    kind = ValueError if "no rows" in message else TableError
    with refused(re.escape(message.format(path=path)), kind, path=path) as caught:
        TextInputs(path).survey(tmp_path)
    assert str(path) in str(caught.value)


def test_parquet_and_places_that_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", [("a", 1, "d"), (None, 2, "d")])
    with pytest.raises(TableError, match=r"row 2 of .* has no text"):
        TextInputs(path).survey(tmp_path)
    with pytest.raises(TableError, match=r"no text column 'body' .* with --text"):
        TextInputs(path, text="body").survey(tmp_path)
    broken = pyarrow.array([b"ok", b"\xff"]).view(pyarrow.utf8())
    table = pyarrow.parquet.read_table(path).set_column(0, "text", broken)
    pyarrow.parquet.write_table(table, path)
    with refused("after row 0 is not text in UTF-8", TableError):
        TextInputs(path).survey(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        TextInputs(tmp_path / "none.csv")
    with pytest.raises(TableError, match="is a folder"):
        TextInputs(tmp_path)
    with refused("with --text, --label, --domain", TableError):
        TextInputs(write(tmp_path / "t.csv"), text="label").survey(tmp_path)


def test_rows_are_read_as_they_are_asked_for(tmp_path: Path) -> None:
    """What stands behind the fault is never reached, what stands before it is."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"text": "a"}\n' * 5 + b"\xff\n" + b'{"text": "a"}\n')
    rows = read_rows(path, [Role("text", "text")])
    assert [next(rows).number for _ in range(5)] == [1, 2, 3, 4, 5]
    with pytest.raises(TableError, match="line 6"):
        next(rows)
