"""Questions to a language model about a scenario, and the reader of its replies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from regraft.moral.scenarios import Scenario
from regraft.moral.values import AXES, PROFILES, Profile
from regraft.support.data_files import read_toml
from regraft.support.digests import digest_text

Letter = Literal["A", "B"]

_TEXTS = read_toml(__package__, "prompts.toml")
_SYSTEM: str = _TEXTS["system"]
_USER: str = _TEXTS["user"]

_NAMED = re.compile(r"(?<![\w'’])[AB](?![\w'’])")  # A's and the A of A4 name no option
# A reply that opens with its letter. Neither "A hard question" nor "A-levels" does.
_OPENING = re.compile(
    r"[\s(\[{*_\"'“`]*([ABab])(?:[\s)\]}*_\"'”`]*$|[)\]}*_\"'”`]*(?:[.:,;!)\n]|\s[-–—])"
    r"|\s+(?:because|since)\b)"
)
_CHOICE = re.compile(
    r"\b(?i:option|action|answer|choice|choose|chooses|pick|picks|select|selects|take|takes|does|"
    r"go with|goes with)(?:\s+(?i:is|would be))?[\s:(\[*_\"'“`]*([AB])(?![\w'’])"
)
_NEGATION = re.compile(r"(?i)\b(?:not|never|neither|cannot|avoid|against)\b|n['’]t\b")


@dataclass(frozen=True)
class Question:
    """A scenario put to one profile; ``swapped`` shows action 2 as option A."""

    scenario: Scenario
    profile: Profile
    swapped: bool


def system_prompt(profile: Profile) -> str:
    """Put the values of ``profile`` into words; ``ValueError`` if a pole is not 1, 0 or -1."""
    poles = zip(AXES, profile, strict=True)
    values = "\n".join(f"- This person {axis.describe(pole)}." for axis, pole in poles)
    return _SYSTEM.format(values=values)


def user_prompt(scenario: Scenario, swapped: bool) -> str:
    """Show the situation and its two actions as options A and B, and ask for one letter."""
    actions = scenario.action1, scenario.action2
    first, second = reversed(actions) if swapped else actions
    return _USER.format(context=scenario.context, first=first, second=second)


def parse_answer(text: str) -> Letter | None:
    """Find the letter that ``text`` settles on; None for a refusal and for anything unclear.

    A letter counts if the reply opens with it, as in "(B)" and "A. Because ...", or after a word
    of choice, as in "I choose B"; a reply that names both letters is unclear.
    """
    if len(set(_NAMED.findall(text))) > 1:
        return None
    opening = _OPENING.match(text)
    if opening:
        return _letter(opening[1])
    choice = _CHOICE.search(text)
    if choice is None or _NEGATION.search(text, 0, choice.start(1)):
        return None
    return _letter(choice[1])


def _letter(found: str) -> Letter:
    return "A" if found in "Aa" else "B"


# Of everything that is said to the model, apart from the scenario.
PROMPT_VERSION = digest_text("\n".join([*map(system_prompt, PROFILES), _USER]))
