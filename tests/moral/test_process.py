from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regraft.moral.library import make_library
from regraft.moral.process import DrawnRecords, action2_shares, draw_records, topic_probabilities
from regraft.moral.responses import response_probabilities
from regraft.moral.scenarios import TOPICS, Library, collect
from regraft.moral.values import PANELS, PROFILES, Panel

LIBRARY = make_library(60)
P = response_probabilities(LIBRARY)
COLUMNS = [field.name for field in fields(DrawnRecords) if field.name != "names"]


def of_panel(records: DrawnRecords, panel: int, first: int | None = None) -> list[list[int]]:
    rows = np.flatnonzero(records.panel == panel)[:first]
    return [getattr(records, name)[rows].tolist() for name in ("scenario", "profile", "y")]


def within_sampling_error(counts: np.ndarray, expected: np.ndarray) -> None:
    """Each count is within 4.5 standard deviations of what was expected."""
    n = counts.sum()
    deviation = np.sqrt(n * expected * (1 - expected))
    assert (abs(counts - n * expected) <= 4.5 * deviation + 1e-9).all()


@pytest.fixture(scope="module")
def many() -> DrawnRecords:
    return draw_records(LIBRARY, P, 20_000, seed=1)


def test_topics_depend_on_values() -> None:
    T = topic_probabilities()
    assert T.shape == (27, 10)
    np.testing.assert_allclose(T.sum(axis=1), 1)
    np.testing.assert_allclose(T[13], 0.1)  # balanced people take what comes

    def of(profile: tuple[int, int, int], topic: str) -> float:
        return float(T[PROFILES.index(profile), TOPICS.index(topic)])

    for topic in ("Do not deprive of freedom", "Do not deprive of pleasure"):
        assert of((0, 1, 0), topic) > 0.1 > of((0, -1, 0), topic)
    for topic in ("Do your duty", "Do not break your promises"):
        assert of((-1, -1, 0), topic) > of((-1, 0, 0), topic) > 0.1 > of((1, 1, 0), topic)
    assert of((0, 0, 1), "Do not cause pain") > 0.1 > of((0, 0, -1), "Do not cause pain")
    assert of((0, 0, 1), "Do not cheat") < 0.1 < of((0, 0, -1), "Do not cheat")


def test_drawn_shares_of_action_2_are_the_expected_ones(many: DrawnRecords) -> None:
    expected = action2_shares(LIBRARY, P)
    assert list(expected) == list(many.names)
    for panel, share in enumerate(expected.values()):
        drawn = 1 - many.y[many.panel == panel]
        within_sampling_error(np.bincount(drawn), np.array([1 - share, share]))
    few = collect(LIBRARY.scenarios[:1], LIBRARY.lean[:1], "one topic")  # others have no scenario
    assert action2_shares(few, np.full((1, 27), 0.25)) == pytest.approx(
        dict.fromkeys(expected, 0.75)
    )


def test_the_seed_decides_and_panels_follow_each_other() -> None:
    records = draw_records(LIBRARY, P, 5)
    assert records.names == ("Pragmatist", "Idealist", "Centrist")
    assert records.panel.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    for name in COLUMNS:
        assert getattr(records, name).shape == (15,)
        assert getattr(records, name).dtype == np.int64
    first, again, other = (draw_records(LIBRARY, P, 50, seed=seed) for seed in (3, 3, 4))
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert (first.scenario != other.scenario).any()
    assert of_panel(first, 0) != of_panel(other, 0)
    together = draw_records(LIBRARY, P, 40)
    alone = draw_records(LIBRARY, P, 40, panels=[PANELS[2], PANELS[0]])
    assert alone.names == ("Centrist", "Pragmatist")
    assert of_panel(alone, 0) == of_panel(together, 2)
    assert of_panel(alone, 1) == of_panel(together, 0)
    # Nor do panels of one prior share their draws.
    twins = [Panel(name, PANELS[0].prior) for name in ("east", "west")]
    records = draw_records(LIBRARY, P, 40, panels=twins)
    assert of_panel(records, 0) != of_panel(records, 1)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 80), st.integers(1, 80), st.integers(0, 2**32))
def test_more_records_begin_with_the_fewer_ones(a: int, b: int, seed: int) -> None:
    few, more = min(a, b), max(a, b)
    short = draw_records(LIBRARY, P, few, seed=seed)
    long = draw_records(LIBRARY, P, more, seed=seed)
    for panel in range(3):
        assert of_panel(short, panel) == of_panel(long, panel, first=few)


@pytest.mark.parametrize("panel", [0, 1, 2])
def test_profiles_follow_the_prior_and_topics_the_values(many: DrawnRecords, panel: int) -> None:
    counts = np.bincount(many.profile[many.panel == panel], minlength=27)
    within_sampling_error(counts, PANELS[panel].profile_prior())
    topics = LIBRARY.topics[many.scenario]
    for profile in range(27):
        chosen = (many.panel == panel) & (many.profile == profile)
        counts = np.bincount(topics[chosen], minlength=10)
        if counts.sum() >= 400:  # below, counts are far from normal
            within_sampling_error(counts, topic_probabilities()[profile])


def test_choices_and_scenarios_follow_the_probabilities(many: DrawnRecords) -> None:
    counts = np.bincount(many.scenario, minlength=60)
    for topic in range(10):
        within_sampling_error(counts[LIBRARY.topics == topic], np.full(6, 1 / 6))
    expected = P[many.scenario, many.profile]
    for s in range(3):
        chosen = many.panel == s
        deviation = np.sqrt((expected * (1 - expected))[chosen].sum())
        assert abs((many.y - expected)[chosen].sum()) < 4.5 * deviation
    likely = expected > 0.9
    assert many.y[likely].mean() > 0.9
    first = (np.indices((60, 27)).sum(axis=0) % 2).astype(float)
    records = draw_records(LIBRARY, first, 200)
    np.testing.assert_array_equal(records.y, first[records.scenario, records.profile])


def test_only_topics_of_the_library_are_drawn() -> None:
    kept = [i for i, topic in enumerate(LIBRARY.topics) if topic in (1, 3)]
    small: Library = collect([LIBRARY.scenarios[i] for i in kept], LIBRARY.lean[kept], "a part")
    records = draw_records(small, response_probabilities(small), 4_000)
    T = topic_probabilities()[:, [1, 3]]
    expected = PANELS[0].profile_prior() @ (T / T.sum(axis=1, keepdims=True))
    topics = small.topics[records.scenario[records.panel == 0]]
    counts = np.bincount(topics, minlength=10)
    assert counts.sum() == counts[[1, 3]].sum() == 4_000
    within_sampling_error(counts[[1, 3]], expected)


@pytest.mark.parametrize(
    ("probabilities", "records", "sentence"),
    [
        (P[:, 1:], 5, r"shape \(60, 26\): pass \(60, 27\)"),
        (P + 1, 5, "not between 0 and 1"),
        (np.full_like(P, np.nan), 5, "not between 0 and 1"),
        (P, 0, "cannot have 0 records"),
    ],
)
def test_wrong_inputs_are_named(probabilities: np.ndarray, records: int, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        draw_records(LIBRARY, probabilities, records)
