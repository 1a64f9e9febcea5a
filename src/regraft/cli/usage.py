"""Format usage errors as one sentence, as every other error."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from regraft.cli.failures import (
    INTERNAL_ERROR,
    INTERRUPTED,
    PROGRAM,
    complain,
    describe_internal_error,
    describe_nameless_error,
    shorten,
)

_EMPTY_OPTION = re.compile("--[a-z-]+=")
# The commands in the order of the help: those that one meets first are first.
_ORDER = (
    *(
        "demo",
        "fit",
        "predict",
        "place",
        "adapt",
        "drift",
        "abduct",
        "audit",
        "frontier",
        "compare",
        "diagnose",
        "report",
        "export",
        "serve",
    ),
    *("embed", "reproduce", "download", "train", "sweep", "collect", "compare-sweeps"),
    *("doctor", "moral"),
)
# Of typer's own copy of click.
_UsageError: Any = typer.BadParameter.__base__


class OneSentenceGroup(TyperGroup):
    """The app's commands; what typer complains about takes one line, not four."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run a command and end the process with its exit code."""
        words = sys.argv[1:] if args is None else list(args)
        if any(word == "" or _EMPTY_OPTION.fullmatch(word) for word in words):
            # An empty path would be the current folder, where nobody may want results.
            complain("an argument is empty: give it a value, or leave it out.")
            sys.exit(2)
        try:
            # A code that a command ends with is returned here, and None for its usual end.
            code = super().main(
                args,
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except _UsageError as error:
            if error.ctx is not None and error.message == error.ctx.get_help():
                error.show()  # a group without a command is explained, not complained about
            else:
                complain(_sentence(error, self._path(words)))
            sys.exit(error.exit_code)
        except typer.Abort:  # an interrupt before a command began, in older versions of typer
            _tell_interrupt()
            sys.exit(INTERRUPTED)
        except Exception as error:  # the last resort: nobody foresaw it
            if isinstance(error, OSError) and error.strerror and error.filename is None:
                complain(describe_nameless_error(error))
                sys.exit(2)
            complain(describe_internal_error(error))
            sys.exit(INTERNAL_ERROR)
        sys.exit(code or 0)

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Read the words of the command line."""
        with _telling_interrupts():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; one that has begun tells of an interrupt itself."""
        with _telling_interrupts():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        """List the commands in the order of the help."""
        return sorted(super().list_commands(ctx), key=_ORDER.index)

    def _path(self, words: Sequence[str]) -> str:
        """Name the program and the commands that ``words`` begin with."""
        path, group = [PROGRAM], self
        for word in words:
            found = getattr(group, "commands", {}).get(word)
            if found is None:
                break
            path.append(word)
            group = found
        return " ".join(path)


@contextmanager
def _telling_interrupts() -> Iterator[None]:
    """End with a line at Ctrl-C, which typer would say nothing of."""
    try:
        yield
    except KeyboardInterrupt:
        _tell_interrupt()
        raise typer.Exit(INTERRUPTED) from None


def _tell_interrupt() -> None:
    complain("interrupted: nothing was written.")


def _close_guesses(error: Any) -> list[str]:
    """Return the options that a wrong one is close to, of those that typer guesses."""
    named = {each.lstrip("-"): each for each in getattr(error, "possibilities", None) or ()}
    wrong = getattr(error, "option_name", "").lstrip("-")  # dashes make all options alike
    return sorted(named[each] for each in get_close_matches(wrong, named))


def _sentence(error: Any, path: str) -> str:
    has_guesses = bool(getattr(error, "possibilities", None))
    text = " ".join((error.message if has_guesses else error.format_message()).split())
    if guesses := _close_guesses(error):
        text = f"{text} (did you mean {' or '.join(guesses)}?)"
    text = re.sub(r"\.? Did you mean (.*)\?$", r" (did you mean \1?)", text)
    return f"{shorten(text.rstrip('.'))}: see {path} --help."
