"""Sentences of the library in the words of the command line: options instead of parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping

import typer

_BEFORE, _AFTER = (
    r"(?<![\w'\"./=-])",
    r"(?![\w'\"/-]|\.\w)",
)  # no part of a word or a path, and not quoted
# Parameters that no command has as options, in the words of its help.
_ARRAYS = {
    rf"{_BEFORE}sample_domain{_AFTER}": "the domain column",
    r"^y (?=has |mixes |is missing)": "the label column ",
}


def option_names(context: typer.Context | None) -> dict[str, str]:
    """Return the long name of each option of a command, by its parameter."""
    parameters = () if context is None else context.command.params
    named = ((str(each.name), each.opts[0]) for each in parameters if each.opts)
    return {name: option for name, option in named if option.startswith("--")}


def speak_of_options(sentence: str, options: Mapping[str, str]) -> str:
    """Name ``options`` as they are typed, wherever a sentence names their parameters.

    Parameters are told from other words by an underscore in the name, or by what is around it:
    ``class_groups=True``, ``family="hull"``, ``drop names 'a'`` where a sentence begins, ``rank is
    a setting of`` and ``or leave rank out``.
    """
    for name, option in options.items():
        word = _BEFORE + re.escape(name)
        sentence = re.sub(rf"{word}=True{_AFTER}", option, sentence)
        sentence = re.sub(rf"{word}=[\"']([^\"']*)[\"']", rf"{option} \1", sentence)
        sentence = re.sub(rf"((?:^|\(\d+\) )){name} names (?=')", rf"\1{option} names ", sentence)
        sentence = re.sub(rf"{word} (?=is a setting of )", f"{option} ", sentence)
        sentence = re.sub(rf"(?<=or leave ){name}(?= out)", option, sentence)
        if "_" in name:
            sentence = re.sub(word + _AFTER, option, sentence)
    for array, said in _ARRAYS.items():
        sentence = re.sub(array, said, sentence)
    return sentence
