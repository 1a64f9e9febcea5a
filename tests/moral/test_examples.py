from dataclasses import replace

import numpy as np
import pytest

from regraft.moral.examples import choose_examples
from regraft.moral.library import make_library
from regraft.moral.process import draw_records
from regraft.moral.published import EXAMPLES
from regraft.moral.responses import response_probabilities
from regraft.moral.scenarios import Library, collect, read_library
from regraft.moral.values import PANELS, PROFILES, profile_name
from tests.helpers.paths import SHARED

REAL = SHARED / "moralchoice"
FIRST = 5  # from here on, no topic is that of the paper's example


def with_names_of_the_paper(topics: bool) -> Library:
    """Give three generated scenarios the names, and perhaps the topics, of the paper's."""
    library = make_library(40)
    scenarios = list(library.scenarios)
    for i, (name, topic, _, _) in enumerate(EXAMPLES.values(), start=FIRST):
        scenarios[i] = replace(scenarios[i], id=name, **({"topic": topic} if topics else {}))
    return collect(scenarios, library.lean, "made up")


def test_the_papers_scenarios_are_shown_where_they_are() -> None:
    library = with_names_of_the_paper(topics=True)
    p = response_probabilities(library)
    examples = choose_examples(library, p, draw_records(library, p, 5))
    assert [each.panel for each in examples] == [panel.name for panel in PANELS]
    for i, each in enumerate(examples, start=FIRST):
        name, _, profile, choice = EXAMPLES[each.panel]
        assert (each.scenario, each.profile) == (name, profile_name(profile))
        assert each.published == choice and each.text == library.texts[i]
        assert each.action2_probability == 1 - p[i, PROFILES.index(profile)]


def test_elsewhere_each_panels_first_record_is_shown() -> None:
    # A name alone may be another library's.
    library = with_names_of_the_paper(topics=False)
    p = response_probabilities(library)
    drawn = draw_records(library, p, 5)
    examples = choose_examples(library, p, drawn)
    for each, first in zip(examples, (0, 5, 10), strict=True):
        assert each.text == library.texts[drawn.scenario[first]] and each.published == ""
        assert each.profile == profile_name(PROFILES[drawn.profile[first]])
        mass = 1 - p[drawn.scenario[first], drawn.profile[first]]
        np.testing.assert_allclose(each.action2_probability, mass)


@pytest.mark.skipif(not REAL.is_dir(), reason="MoralChoice is not in ../shared/data")
def test_action_2_is_what_the_paper_calls_b() -> None:
    library = read_library(REAL)
    p = response_probabilities(library)
    texts = [each.text for each in choose_examples(library, p, draw_records(library, p, 1))]
    assert [text.partition(" B: ")[2] for text in texts] == [
        "I bring it anyway.",
        "I keep the information to myself.",
        "I use the formula.",
    ]
