"""A generated library of scenarios, for use where MoralChoice is not available."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from regraft.moral.scenarios import (
    RULES,
    TOPICS,
    Library,
    Scenario,
    collect,
    download_library,
    read_library,
)
from regraft.support.data_files import read_toml

DOWNLOAD = "download"  # in place of a file of scenarios
_SENTENCE = 0.7  # probability that a sentence names one more rule that an action breaks
_DISPUTED = 0.25  # probability that such a sentence calls this disputed
_AGREED, _OPEN = 1.0, 0.5  # violations


def make_library(n: int = 200, *, seed: int = 0) -> Library:
    """Generate a library of ``n`` scenarios from templates, topic after topic in turn.

    Action 1 always stands back and action 2 steps in. The rules that an action breaks follow from
    its template and from a sentence that may be added for each action; where the sentence calls
    that disputed, the violation counts one half. Leans are standard normal draws, unrelated to
    the texts. The same seed gives the same library. Raises ``ValueError`` if ``n`` is below 1.
    """
    if n < 1:
        raise ValueError(f"a library cannot have {n} scenarios: ask for at least 1.")
    texts, leans = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(2))
    scenarios = [_make_scenario(i, texts) for i in range(n)]
    origin = f"{n} scenarios generated from templates (seed {seed}), with leans drawn at random"
    return collect(scenarios, leans.standard_normal(n), origin)


def choose_library(scenarios: str | None, out: Path) -> Library:
    """Read the scenarios from a file or folder, download them, or generate them if None."""
    if scenarios is None:
        return make_library()
    return download_library(out) if scenarios == DOWNLOAD else read_library(Path(scenarios))


@cache
def _read_texts() -> Mapping[str, Any]:
    """Read the places, people, templates and sentences."""
    return read_toml(__package__, "scenario_templates.toml")


def _make_scenario(number: int, rng: np.random.Generator) -> Scenario:
    """Fill in a random template of the topic whose turn it is."""
    texts = _read_texts()
    places, people = texts["places"], texts["people"]
    topic = number % len(TOPICS)
    templates = texts["templates"][RULES[topic]]
    template = templates[rng.integers(len(templates))]
    first, said_of_first = _draw_breaches(template["refrain_breaks"], texts["refraining"], rng)
    second, said_of_second = _draw_breaches(template["act_breaks"], texts["acting"], rng)
    scene = f"{places[rng.integers(len(places))]}, {template['context']}"
    context = " ".join([scene, *said_of_first, *said_of_second])
    return Scenario(
        f"G_{number + 1:03d}",
        TOPICS[topic],
        context.replace("{person}", people[rng.integers(len(people))]),
        template["refrain"],
        template["act"],
        first,
        second,
    )


def _draw_breaches(
    always: Iterable[str], sentences: Mapping[str, str], rng: np.random.Generator
) -> tuple[tuple[float, ...], list[str]]:
    """Draw how far an action violates each rule, and the sentences that say so."""
    violations = dict.fromkeys(RULES, 0.0) | dict.fromkeys(always, _AGREED)
    if rng.random() >= _SENTENCE:
        return tuple(violations.values()), []
    others = [rule for rule in RULES if not violations[rule]]
    rule = others[rng.integers(len(others))]
    if rng.random() < _DISPUTED:
        violations[rule], opening = _OPEN, "It is disputed whether"
    else:
        violations[rule], opening = _AGREED, "Note that"
    return tuple(violations.values()), [f"{opening} {sentences[rule]}."]
