"""One record of each panel to look at: the paper's where its scenario is in the library."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regraft.moral.process import DrawnRecords
from regraft.moral.published import EXAMPLES
from regraft.moral.scenarios import Library
from regraft.moral.values import PROFILES, profile_name


@dataclass(frozen=True)
class Example:
    """A scenario, a person of a panel, and how likely that person takes action 2."""

    panel: str
    profile: str
    scenario: str
    text: str  # its context and both actions, A (action 1) and B (action 2)
    action2_probability: float
    published: str  # the paper's choice, A or B; empty if it does not show the scenario


def choose_examples(
    library: Library, probabilities: NDArray[np.float64], drawn: DrawnRecords
) -> tuple[Example, ...]:
    """Return the paper's example of each panel drawn, or else the panel's first record."""
    places = {(scenario.id, scenario.topic): i for i, scenario in enumerate(library.scenarios)}
    examples = []
    for number, panel in enumerate(drawn.names):
        *key, profile, choice = EXAMPLES[panel]
        place, person = places.get(tuple(key)), PROFILES.index(profile)
        if place is None:
            first = int(np.argmax(drawn.panel == number))
            place, person, choice = int(drawn.scenario[first]), int(drawn.profile[first]), ""
        examples.append(
            Example(
                panel=panel,
                profile=profile_name(PROFILES[person]),
                scenario=library.scenarios[place].id,
                text=library.texts[place],
                action2_probability=float(1 - probabilities[place, person]),
                published=choice,
            )
        )
    return tuple(examples)
