from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regraft.moral.library import make_library
from regraft.moral.process import action2_shares
from regraft.moral.responses import (
    LOADINGS,
    MECHANISM,
    PAPER_PERMISSIVENESS,
    describe_mechanism,
    loadings,
    response_probabilities,
    weights,
)
from regraft.moral.scenarios import RULES, Library, Scenario, collect, read_library
from regraft.moral.tables import published_spread
from regraft.moral.values import PROFILES
from tests.helpers.paths import SHARED

REAL = SHARED / "moralchoice"
SCENARIO = Scenario("a", "Do not kill", "A bus.", "I wait.", "I walk.", (0.0,) * 10, (0.0,) * 10)


def single(scenario: Scenario, lean: float = 0) -> Library:
    return collect([scenario], np.array([lean]), "made by hand")


def of(profile: tuple[int, int, int], rule: str) -> float:
    return float(weights()[PROFILES.index(profile), RULES.index(rule)])


def test_loadings_are_orthonormal_and_close_to_their_table() -> None:
    L = loadings()
    assert L.shape == (3, 10)
    np.testing.assert_allclose(L @ L.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(L @ np.ones(10), 0, atol=1e-12)
    L, table = loadings(), np.array(LOADINGS)
    cosines = (L * table).sum(1) / np.linalg.norm(table, axis=1)
    assert (cosines > 0.9).all()
    clear = abs(table) >= 0.5
    assert (np.sign(L[clear]) == np.sign(table[clear])).all()
    np.testing.assert_allclose(weights()[13], 1 / np.sqrt(10), atol=1e-12)


@pytest.mark.parametrize(
    ("who", "rules"),
    [
        ((1, 0, 0), "death pain disable"),  # outcomes matter to consequentialists
        ((-1, 0, 0), "deceive cheat break_promise break_law duty"),  # and rules to deontologists
        ((0, 1, 0), "freedom pleasure"),
        ((0, -1, 0), "break_law duty"),
        ((0, 0, 1), "pain disable"),
        ((0, 0, -1), "cheat break_law deceive"),
    ],
)
def test_every_pole_has_rules_that_matter_to_it(who: tuple[int, int, int], rules: str) -> None:
    a, b, c = who
    for rule in rules.split():
        assert of(who, rule) > of((0, 0, 0), rule) > of((-a, -b, -c), rule)


def test_probabilities_by_hand() -> None:
    violations = tuple(float(rule in ("death", "duty")) for rule in RULES)
    library = single(replace(SCENARIO, violations1=violations), lean=0.8)
    p = response_probabilities(library, strength=2, lean_weight=0.5)
    assert p.shape == (1, 27)
    # The balanced profile minds each of the two violations with the weight 1 / sqrt(10).
    logit = 0.5 * 0.8 - 2 * 2 / np.sqrt(10)
    assert p[0, 13] == pytest.approx(1 / (1 + np.exp(-logit)))
    minded = of((1, -1, 0), "death") + of((1, -1, 0), "duty")
    logit = 0.5 * 0.8 - 2 * minded
    assert p[0, PROFILES.index((1, -1, 0))] == pytest.approx(1 / (1 + np.exp(-logit)))
    np.testing.assert_array_equal(response_probabilities(single(SCENARIO)), 0.5)
    leaning = response_probabilities(single(SCENARIO, lean=4), lean_weight=0.25)
    np.testing.assert_allclose(leaning, 1 / (1 + np.exp(-1)))


violations = st.tuples(*[st.sampled_from([0.0, 0.5, 1.0])] * 10)


@given(violations, violations, st.integers(0, 9))
def test_a_violation_more_makes_an_action_rarer_where_it_is_minded(
    first: tuple[float, ...], second: tuple[float, ...], rule: int
) -> None:
    clean, broken = list(first), list(first)
    clean[rule], broken[rule] = 0, 1
    scenario = replace(SCENARIO, violations1=tuple(clean), violations2=second)
    before = response_probabilities(single(scenario))[0]
    after = response_probabilities(single(replace(scenario, violations1=tuple(broken))))[0]
    minded = weights()[:, rule]
    assert (minded > 0).any()
    assert (after[minded > 0] < before[minded > 0]).all()
    assert (after[minded < 0] > before[minded < 0]).all()


@given(violations, violations, st.floats(-3, 3))
def test_exchanged_actions_exchange_probabilities(
    first: tuple[float, ...], second: tuple[float, ...], lean: float
) -> None:
    there = replace(SCENARIO, violations1=first, violations2=second)
    back = replace(SCENARIO, violations1=second, violations2=first)
    p = response_probabilities(single(there, lean))
    np.testing.assert_allclose(p, 1 - response_probabilities(single(back, -lean)), atol=1e-12)


def certainty_and_disagreement(library: Library) -> tuple[float, float]:
    p = response_probabilities(library)
    return float(np.maximum(p, 1 - p).mean()), float(p.std(axis=1).mean())


def test_generated_scenarios_divide_people() -> None:
    certainty, disagreement = certainty_and_disagreement(make_library())
    assert 0.7 < certainty < 0.85
    assert disagreement > 0.1
    assert "model" in MECHANISM and "not from people" in MECHANISM


@pytest.mark.skipif(not REAL.is_dir(), reason="the scenarios of MoralChoice are not here")
def test_moralchoice_divides_people_as_documented() -> None:
    certainty, disagreement = certainty_and_disagreement(read_library(REAL))
    assert certainty == pytest.approx(0.80, abs=0.005)
    assert disagreement == pytest.approx(0.19, abs=0.005)


@given(st.floats(0, 4), st.floats(0, 4))
def test_permissive_people_mind_violations_less_in_general(one: float, more: float) -> None:
    """The mean pole decides how much, and nothing else moves."""
    change = weights(one) - weights(one + more)
    mean_pole = np.array(PROFILES).mean(axis=1)
    np.testing.assert_allclose(change, np.outer(mean_pole * more, np.full(10, 0.1**0.5)), atol=1e-9)
    np.testing.assert_array_equal(weights(0.0), weights())


@pytest.mark.parametrize("wrong", [-0.1, float("nan"), float("inf")])
def test_what_made_the_labels_is_said(wrong: float) -> None:
    assert describe_mechanism(1.68) == f"{MECHANISM} Its permissiveness is 1.68."
    with pytest.raises(ValueError, match=r"^permissiveness is .*: pass a number, 0 or more\.$"):
        describe_mechanism(wrong)


@pytest.mark.skipif(not REAL.is_dir(), reason="the scenarios of MoralChoice are not here")
def test_the_papers_spread_is_reached_in_its_order_at_the_stated_permissiveness() -> None:
    library = read_library(REAL)

    def shares(**settings: float) -> dict[str, float]:
        return action2_shares(library, response_probabilities(library, **settings))

    def spread(**settings: float) -> float:
        found = shares(**settings).values()
        return max(found) - min(found)

    found = shares(permissiveness=PAPER_PERMISSIVENESS)
    assert found["Pragmatist"] > found["Centrist"] > found["Idealist"]
    assert spread(permissiveness=PAPER_PERMISSIVENESS) == pytest.approx(
        published_spread(), abs=0.0005
    )
    # No other setting does that.
    assert spread() == pytest.approx(0.058, abs=0.0005)
    assert max(spread(strength=s, lean_weight=w) for s in (0.4, 1.2, 3, 20) for w in (0, 1)) < 0.08
