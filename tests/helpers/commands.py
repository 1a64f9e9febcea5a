"""How tests call the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regraft.cli.session import Run


def make_run(out: Path | None = None) -> Run:
    """What a command hands on, for those tests that leave out the command line."""
    return Run("test", ("regraft", "test"), {}, (), out, html=False, start=0.0, warnings=[])


@dataclass(frozen=True)
class Ran:
    """What a command of the command line did."""

    code: int
    out: str
    err: str
