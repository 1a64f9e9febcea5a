"""Our command line with arguments that were DomainBed's."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import Any

import regraft.cli.app  # noqa: F401  (registers the commands)
from regraft.cli.command import app
from regraft.cli.failures import PROGRAM


def run(translate: Callable[..., list[str] | None], *given: Any) -> None:
    """Show the command that does the same as ``translate`` says, if there is one, and run it.

    What cannot be translated is refused in one sentence.
    """
    try:
        arguments = translate(*given)
    except ValueError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    if arguments is None:
        print("Nothing to delete: unfinished runs go on where they were when launched again.")
    else:
        print(shlex.join([PROGRAM, *arguments]), file=sys.stderr)
        app(arguments, prog_name=PROGRAM)


def usual_device() -> str:
    """Return ``cuda`` where there is a GPU, as DomainBed does."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
