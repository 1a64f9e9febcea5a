"""Sentences of the library in the words of the command line: options instead of parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping

import typer

# Parameters that no command has as options, as its help calls them.
_ARRAYS = {"sample_domain": "the domain column"}
_ALONE = r"(?<![\w'\"./=-]){}(?![\w'\"./-])"  # not a part of another word, and not quoted


def option_names(context: typer.Context | None) -> dict[str, str]:
    """Return the long name of each option of a command, by its parameter."""
    parameters = () if context is None else context.command.params
    named = ((str(each.name), each.opts[0]) for each in parameters if each.opts)
    return {name: option for name, option in named if option.startswith("--")}


def speak_of_options(sentence: str, options: Mapping[str, str]) -> str:
    """Name ``options`` as they are typed, wherever a sentence names their parameters.

    Parameters are told from other words by an underscore in the name, or by a value after it:
    ``class_groups=True`` and ``family="hull"``.
    """
    for name, option in options.items():
        word = re.escape(name)
        sentence = re.sub(_ALONE.format(f"{word}=True"), option, sentence)
        sentence = re.sub(rf"(?<![\w'\"./-]){word}=[\"']([^\"']*)[\"']", rf"{option} \1", sentence)
        if "_" in name:
            sentence = re.sub(_ALONE.format(word), option, sentence)
    for name, said in _ARRAYS.items():
        sentence = re.sub(_ALONE.format(name), said, sentence)
    return sentence
