"""Command lines and files with something wrong, a function of the seed alone."""

from __future__ import annotations

import json
import os
import pickle
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer

from regraft.cli.app import app
from tests.helpers.tables import write_columns

ROWS = 72
VALUES = (
    *("", " ", "0", "1", "-1", "2", "3", "0.5", "1e400", "nan", "-inf", "9" * 400, "1e-320"),
    *("label", "domain", "a", "latent", "hull", "factorized", "cpu", "abacus", "json", "hashed"),
    *("1,2", ",", "1,,x", "{}", "[" * 5000, '{"lr": "x"}', '{"lr": 1e999}', "--out", "-", "--"),
    *(
        "é",
        "ｆｕｌｌ",
        "\u202e",
        "a\nb",
        "'; drop",
        "{tmp}/pipe.csv",
        "{tmp}",
        "..",
        "~",
    ),
    *("nothing", "data.csv", "x" * 5000, "%s%n", "<b>", "{tmp}/deep.json", "true"),
)
# Commands with arguments that work; in braces a folder, a file that is mutated, and a new place.
LINES = {
    "fit": "{data} --out {out} --family {family}",
    "predict": "{model} {data}",
    "audit": "{model} {data} --family {family}",
    "frontier": "{data} --family hull --radii 1",
    "diagnose": "{data} --groups 2",
    "abduct": "{data}",
    "place": "{model} {data}",
    "adapt": "{model} {data} --out {out} --draws 2",
    "drift": "{model} {data} --batch 20",
    "report": "{model} --out {out}.html",
    "export": "{model} --to json --out {out}.json",
    "embed text": "{texts} --encoder hashed --out {out}",
    "embed verify": "{bank}",
    "train": "--dataset toy --data {toy} --steps 2 --out {out}",
    "collect": "{toy}",
    "doctor": "",
}
# Of these, only lines that end at once: they would serve for ever, or work for minutes.
REFUSED = {
    "serve": "{tmp}/nothing",
    "demo": "--out {tmp}/data.csv",
    "compare": "{tmp}/nothing.csv",
    "reproduce": "cmnist --out {tmp}/data.csv",
    "sweep": "--datasets none --out {tmp}/data.csv",
    "moral run": "--out {tmp}/data.csv",
    "moral elicit": "--out {tmp}/data.csv",
    "embed images": "{tmp}/nothing --out {out}",
}
FORMATS = ("csv", "csv.gz", "jsonl", "jsonl.gz", "parquet", "npz")


@dataclass(frozen=True)
class Case:
    """A command line, and the files that it reads."""

    words: list[str]
    out: Path


class Payload:
    """A pickle that leaves a trace when it is loaded."""

    def __init__(self, trace: Path) -> None:
        self.trace = str(trace)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.mkdir, (self.trace,)


def draw_case(seed: int, place: Path, shared: Mapping[str, Path], trace: Path) -> Case:
    """Draw a command, its files and its options; ``shared`` are folders that are never changed."""
    rng = random.Random(seed)
    name = rng.choice([*LINES, *LINES, *REFUSED])
    out = place / "out"
    data = write_table(rng, place / f"data.{rng.choice(FORMATS)}")
    texts = write_texts(rng, place / f"texts.{rng.choice(FORMATS[:5])}")
    if rng.random() < 0.5:
        damage(rng, rng.choice([data, texts]), trace)
    places = {"out": out, "data": data, "texts": texts, "tmp": shared["tmp"], **shared}
    family = rng.choice(("latent", "hull", "factorized"))
    line = (LINES.get(name) or REFUSED.get(name) or "").format(**places, family=family)
    words = [*name.split(), *line.split()]
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        words += draw_option(rng, name, shared["tmp"])
    if rng.random() < 0.1:
        words.insert(rng.randrange(len(words) + 1), rng.choice(VALUES).replace("{tmp}", "x"))
    return Case([*(word.replace("\0", "") for word in words), "--quiet"], out)


def draw_option(rng: random.Random, name: str, tmp: Path) -> list[str]:
    command: Any = typer.main.get_command(app)
    for word in name.split():
        command = command.commands[word]
    options = [each for each in command.params if each.opts[0].startswith("--")]
    # Another --out would let a command work that is to be refused.
    kept = ("--engine", "--address", *(["--out"] if name in REFUSED else []))
    option = rng.choice([each for each in options if each.opts[0] not in kept])
    if getattr(option, "is_flag", False):
        return [option.opts[0]]
    return [option.opts[0], rng.choice(VALUES).replace("{tmp}", str(tmp))]


def write_table(rng: random.Random, path: Path) -> Path:
    """Write a table in the format of its name, sometimes with odd columns or cells."""
    numbers = np.random.default_rng(rng.randrange(2**32))
    y = numbers.integers(0, 2, ROWS)
    X = numbers.normal(size=(ROWS, 3)) + 2 * y[:, None]
    domain = np.array(["a", "b"])[np.arange(ROWS) % 2]
    for change in rng.sample(TABLE_CHANGES, rng.choice((0, 0, 1, 1, 2))):
        X, y, domain = change(numbers, X, y, domain)
    if path.suffix == ".npz":
        np.savez(path, X=X, label=y, domain=domain)
        return path
    columns: dict[str, Any] = {f"f{i}": X[:, i].tolist() for i in range(X.shape[1])}
    columns |= {"label": y.tolist(), "domain": domain.tolist()}
    for change in rng.sample(COLUMN_CHANGES, rng.choice((0, 0, 0, 1))):
        columns = change(rng, columns)
    try:
        return write_columns(path, columns)
    except (TypeError, ValueError, OverflowError):  # a format that cannot hold these cells
        return write_columns(path, {"f0": [1.0, 2.0], "label": [0, 1], "domain": ["a", "b"]})
    except Exception as error:  # pyarrow's own kinds
        assert type(error).__module__.startswith("pyarrow"), error
        return write_columns(path, {"f0": [1.0, 2.0], "label": [0, 1], "domain": ["a", "b"]})


def _scaled(size: float) -> Callable[..., Any]:
    return lambda rng, X, y, domain: (np.clip(X, -1, 1) * size, y, domain)


def _set(value: float) -> Callable[..., Any]:
    def change(rng: np.random.Generator, X: Any, y: Any, domain: Any) -> Any:
        if not X.size:
            return X, y, domain
        X = X.copy()
        X[rng.integers(len(X), size=3), rng.integers(X.shape[1])] = value
        return X, y, domain

    return change


TABLE_CHANGES: Sequence[Callable[..., Any]] = [
    *(_scaled(size) for size in (0.0, 1e-160, 1e-12, 1e12, 1e160, 1e308)),
    *(_set(value) for value in (np.nan, np.inf, 1e300)),
    lambda rng, X, y, domain: (X, np.zeros_like(y), domain),
    lambda rng, X, y, domain: (X, np.arange(len(y)), domain),
    lambda rng, X, y, domain: (X, y + 0.5, domain),
    lambda rng, X, y, domain: (X, y, np.full(len(y), "a")),
    lambda rng, X, y, domain: (X, y, np.arange(len(y))),
    lambda rng, X, y, domain: (X[:1], y[:1], domain[:1]),
    lambda rng, X, y, domain: (X[:0], y[:0], domain[:0]),
    lambda rng, X, y, domain: (X[:, :1] * np.ones(60), y, domain),
    lambda rng, X, y, domain: (np.repeat(X[:2], len(X) // 2, axis=0), y, domain),
    lambda rng, X, y, domain: (X, y, np.where(y == 0, "a", "b")),
    lambda rng, X, y, domain: (np.hstack([X, rng.normal(size=(len(X), 150))]), y, domain),
]


def _replaced(cell: Any) -> Callable[..., Any]:
    def change(rng: random.Random, columns: dict[str, Any]) -> dict[str, Any]:
        name = rng.choice([*columns])
        cells = list(columns[name])
        for row in rng.sample(range(len(cells)), min(len(cells), rng.choice((1, 5, 100)))):
            cells[row] = cell
        return columns | {name: cells}

    return change


COLUMN_CHANGES: Sequence[Callable[..., Any]] = [
    *(_replaced(cell) for cell in (None, "", "text", "nan", True, 10**30, [1, 2], {"a": 1})),
    *(_replaced(cell) for cell in ("\ud800", "a" * 10_000, "=1+1", "0x10", b"\xff", -0.0)),
    lambda rng, columns: columns | {"": [1.0] * len(columns["label"])},
    lambda rng, columns: columns | {"é\n": ["x"] * len(columns["label"])},
    lambda rng, columns: {name: columns[name] for name in columns if name != "label"},
    lambda rng, columns: {name: columns[name] for name in columns if name != "domain"},
    lambda rng, columns: {name: columns[name] for name in ("label", "domain")},
]


def write_texts(rng: random.Random, path: Path) -> Path:
    words = ["good", "bad", "", "é", "<b>", "\u202e", "x" * 500, "0"]
    rows = range(12)
    return write_columns(
        path,
        {
            "text": [" ".join(rng.choices(words, k=4)) for _ in rows],
            "label": [i % 2 for i in rows],
            "domain": ["ab"[i % 3 == 0] for i in rows],
        },
    )


def damage(rng: random.Random, path: Path, trace: Path) -> None:
    """Change some bytes of a file, or all of them, or put something else in its place."""
    content = bytearray(path.read_bytes())
    content = content or bytearray(b"\n")  # a table without rows may be empty
    at, length = rng.randrange(len(content)), rng.choice((1, 8, 100))
    kind = rng.randrange(12)
    if kind < 4:
        for _ in range(rng.choice((1, 3, 30))):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif kind == 4:
        content = content[:at]
    elif kind == 5:
        del content[at : at + length]
    elif kind == 6:
        content[at:at] = rng.randbytes(length)
    elif kind == 7:
        content += content[at:]
    elif kind == 8:
        content = bytearray(pickle.dumps(Payload(trace)))
    elif kind == 9:
        content = bytearray(("[" * 50_000 + "\n").encode())
    elif kind == 10:
        content = bytearray(json.dumps({"label": 1, "domain": "a", "f0": 1}).encode())
    else:
        path.unlink()
        if rng.random() < 0.5:
            os.mkfifo(path)
        else:
            path.mkdir()
        return
    path.write_bytes(content)
