"""Tables of options, made from the app: ``<!-- options: embed images -->`` stands for one."""

from __future__ import annotations

import re
from typing import Any

import typer

from regraft.cli.app import app

_MARK = re.compile(r"^<!-- options: (.+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the marks of a page."""
    return _MARK.sub(lambda mark: render_options(mark.group(1)), markdown)


def render_options(words: str) -> str:
    """Usage and table of the command that ``words`` name, such as ``embed images``."""
    command: Any = typer.main.get_command(app)
    for word in words.split():
        command = command.commands[word]
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    usage = " ".join([words, *(str(each.name).upper() for each in arguments)])
    options = [each for each in command.params if each.param_type_name == "option"]
    rows = [_row(each) for each in (*arguments, *options) if not getattr(each, "hidden", False)]
    head = "| | | default |\n|---|---|---|\n"
    return f"```text\nregraft {usage} [OPTIONS]\n```\n\n{head}" + "\n".join(rows)


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = f"`{str(parameter.name).upper()}`"
    else:
        name = ", ".join(f"`{option}`" for option in parameter.opts)
    text = " ".join((parameter.help or "").split()).replace("|", "\\|")
    return f"| {name} | {text} | {_default(parameter)} |"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "needed"
    if parameter.default is None or parameter.is_flag or callable(parameter.default):
        return ""
    return f"`{parameter.default}`"
