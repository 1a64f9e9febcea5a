"""Random records of panels: a person, the scenario they take up, and their choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from regraft.moral.scenarios import TOPICS, Library
from regraft.moral.values import PANELS, PROFILES, Panel, profile_matrix

# How far the topics, in the order of TOPICS, draw the +1 pole of each axis of AXES and repel its -1
# pole. Questions of life and suffering draw consequentialists, and those of honesty, promises and
# duty deontologists; freedom and pleasure draw individualists, promises, law and duty
# collectivists; suffering draws those who put care first, and cheating, deceit and law those who
# put justice first.
AFFINITIES = (
    #  kill  pain  disable freedom pleasure deceive cheat promise law  duty
    (1.0, 0.5, 1.0, 0.0, 0.5, -0.5, 0.0, -1.0, -0.5, -1.0),
    (0.0, 0.0, 0.0, 1.5, 1.5, 0.0, 0.0, -1.0, -0.5, -1.5),
    (0.5, 1.5, 1.0, 0.0, 0.0, -1.0, -1.0, 0.0, -1.0, 0.0),
)
KAPPA = 0.6  # how much the affinities count

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DrawnRecords:
    """People, scenarios and choices, one panel after the other: integers (N,)."""

    scenario: Integers  # index into the library
    profile: Integers  # index into PROFILES
    panel: Integers  # index into names
    y: Integers  # 1 for action 1, 0 for action 2
    names: tuple[str, ...]  # of the panels


def topic_probabilities() -> NDArray[np.float64]:
    """Compute P(topic | profile), the same in all panels: (27, 10), rows sum to one."""
    probabilities: NDArray[np.float64] = softmax(
        KAPPA * profile_matrix() @ np.array(AFFINITIES), axis=1
    )
    return probabilities


def draw_records(
    library: Library,
    probabilities: NDArray[np.float64],
    records: int,
    *,
    seed: int = 0,
    panels: Sequence[Panel] = PANELS,
) -> DrawnRecords:
    """Draw ``records`` records of each panel; ``probabilities`` (n, 27) are those of action 1.

    A profile is drawn from the panel's prior, a topic from those that the library has, given the
    profile, a scenario from that topic, all alike, and the choice from its probability. What a
    panel gives depends on the seed and on its own name and prior, not on other panels, and more
    records begin with the fewer ones. Raises ``ValueError`` with one sentence.
    """
    _check(library, probabilities, records)
    drawn = [_draw(library, probabilities, records, panel, seed) for panel in panels]
    scenario, profile, y = (np.concatenate(column) for column in zip(*drawn, strict=True))
    origin = np.repeat(np.arange(len(panels)), records)
    return DrawnRecords(scenario, profile, origin, y, tuple(panel.name for panel in panels))


def action2_shares(library: Library, probabilities: NDArray[np.float64]) -> dict[str, float]:
    """Compute the share of action 2 that is expected of each panel; arguments as for drawing."""
    sizes = np.bincount(library.topics, minlength=len(TOPICS))
    topic = topic_probabilities() * (sizes > 0)
    topic /= topic.sum(axis=1, keepdims=True)
    scenario = (topic / sizes.clip(min=1))[:, library.topics]  # (27, n) P(scenario | profile)
    by_profile = (scenario * (1 - probabilities.T)).sum(axis=1)
    return {panel.name: float(panel.profile_prior() @ by_profile) for panel in PANELS}


def _check(library: Library, probabilities: NDArray[np.float64], records: int) -> None:
    """Raise ``ValueError`` with one sentence for wrong arguments."""
    expected = (len(library.scenarios), len(PROFILES))
    if probabilities.shape != expected:
        raise ValueError(
            f"probabilities have the shape {probabilities.shape}: pass {expected}, one row for "
            "each scenario and one column for each profile."
        )
    if not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise ValueError("some probabilities are not between 0 and 1: pass P(action 1).")
    if records < 1:
        raise ValueError(f"a panel cannot have {records} records: ask for at least 1.")


def _draw(
    library: Library,
    probabilities: NDArray[np.float64],
    records: int,
    panel: Panel,
    seed: int,
) -> tuple[Integers, Integers, Integers]:
    """Draw the scenario, profile and choice of each of one panel's records."""
    # A stream for each variable, so that the next record does not shift what the first ones get.
    streams = np.random.SeedSequence([seed, *panel.name.encode()]).spawn(4)
    for_profile, for_topic, for_scenario, for_choice = (
        np.random.default_rng(stream).random(records) for stream in streams
    )
    profile = _choose(panel.profile_prior()[None], for_profile)
    sizes = np.bincount(library.topics, minlength=len(TOPICS))
    topic = _choose((topic_probabilities() * (sizes > 0))[profile], for_topic)
    scenario = _member(library.topics, sizes, topic, for_scenario)
    y = (for_choice < probabilities[scenario, profile]).astype(np.int64)
    return scenario, profile, y


def _choose(masses: NDArray[np.float64], uniforms: NDArray[np.float64]) -> Integers:
    """Pick an index for each uniform (N,) by the masses (1, k) or (N, k) in its row."""
    cumulative = masses.cumsum(axis=1)
    cumulative /= cumulative[:, -1:]  # exactly one at the end, above every uniform
    chosen: Integers = (cumulative <= uniforms[:, None]).sum(axis=1)
    return chosen


def _member(
    topics: Integers, sizes: Integers, topic: Integers, uniforms: NDArray[np.float64]
) -> Integers:
    """Pick a scenario of each topic in ``topic`` (N,), all equally likely."""
    by_topic = topics.argsort(kind="stable")
    first = sizes.cumsum() - sizes
    # The product may be rounded up to the size.
    place = np.minimum((uniforms * sizes[topic]).astype(np.int64), sizes[topic] - 1)
    members: Integers = by_topic[first[topic] + place]
    return members
