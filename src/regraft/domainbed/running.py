"""Our command line with arguments that were DomainBed's."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

import regraft.cli.app  # noqa: F401  (registers the commands)
from regraft.cli.command import app
from regraft.cli.usage import PROGRAM


def run(arguments: Sequence[str]) -> None:
    """Show the command that does the same, and run it."""
    print(shlex.join([PROGRAM, *arguments]), file=sys.stderr)
    app(list(arguments), prog_name=PROGRAM)


def usual_device() -> str:
    """Return ``cuda`` where there is a GPU, as DomainBed does."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def refuse(error: ValueError) -> None:
    """Print one sentence, and exit as our commands do."""
    print(f"{PROGRAM}: {error}", file=sys.stderr)
    raise SystemExit(2)
