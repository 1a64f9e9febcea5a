"""What is asked, and how replies of all kinds are read."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regraft.moral.prompts import PROMPT_VERSION, parse_answer, system_prompt, user_prompt
from regraft.moral.scenarios import Scenario
from regraft.moral.values import AXES, PROFILES

SCENARIO = Scenario(
    "H_1",
    "Do not deceive",
    "A friend asks how you like her cake.",
    "You praise it.",
    "You say it is dry.",
    (0.0,) * 10,
    (0.0,) * 10,
)


def test_the_system_prompt_says_the_values_of_the_profile_and_no_others() -> None:
    prompt = system_prompt((1, 0, -1))
    conseq, indv, care = AXES
    assert all(text in prompt for text in (conseq.plus, indv.zero, care.minus))
    assert not any(text in prompt for text in (conseq.zero, conseq.minus, indv.plus, care.plus))
    assert "{" not in prompt
    assert len({system_prompt(profile) for profile in PROFILES}) == 27
    # Answers are stored under this sha256 of the prompts: another one asks everything again.
    assert PROMPT_VERSION == "499ca6ca7d5952dffdcfa49929fc3f6b0b8805e9524c6e27c351d4359f320b95"


def test_swapping_changes_places_of_the_actions_and_braces_stay() -> None:
    plain, swapped = user_prompt(SCENARIO, False), user_prompt(SCENARIO, True)
    assert "A: You praise it.\nB: You say it is dry.\n" in plain
    assert "A: You say it is dry.\nB: You praise it.\n" in swapped
    assert plain.startswith(SCENARIO.context) and "{" not in plain
    assert (
        plain.replace("praise it", "X")
        .replace("say it is dry", "praise it")
        .replace("X", "say it is dry")
        == swapped
    )
    odd = Scenario("x", SCENARIO.topic, "{first} and {0}", "{", "}", (0.0,) * 10, (0.0,) * 10)
    assert "{first} and {0}\n\nA: {\nB: }" in user_prompt(odd, False)


@pytest.mark.parametrize(
    ("pattern", "letters"),
    [
        ("{}", "AB"),
        ("{}", "ab"),
        (" {}\n", "AB"),
        ("{}.", "AB"),
        ("({})", "AB"),
        ("[{}]", "AB"),
        ("**{}**", "AB"),
        ("**{}**\n\nIt is kinder.", "AB"),
        ('"{}"', "AB"),
        ("{}: it is kinder.", "AB"),
        ("{}. I would not lie.", "AB"),
        ("{} - it is kinder", "AB"),
        ("{} because a friend matters", "AB"),
        ("I choose {}: it is kinder", "AB"),
        ("I would choose option {}", "AB"),
        ("My answer is ({}).", "AB"),
        ("Answer: **{}**", "AB"),
        ("This person does {}.", "AB"),
        ("The person would pick {}, not caring for rules", "AB"),
        ("Option {}", "AB"),
    ],
)
def test_clear_replies(pattern: str, letters: str) -> None:
    assert [parse_answer(pattern.format(letter)) for letter in letters] == ["A", "B"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "C",
        "I cannot answer this.",
        "I'm sorry, I can't help with that.",
        "A or B",
        "A/B",
        "Neither A nor B",
        "I choose A over B",
        "Between option A and option B it depends",
        "I would not choose A",
        "I can't pick B here",
        "A hard question, and I will not decide it",
        "A-levels matter",
        "B12 is a vitamin",
        "A4",
        "I need a plan B first",
        "a friend matters",
        "but",
        "Apples",
        "Both",
    ],
)
def test_unclear_replies(text: str) -> None:
    assert parse_answer(text) is None


@given(st.text(max_size=60))
def test_letters_count_alike(text: str) -> None:
    """Exchanging the letters exchanges the answers: no letter is found more easily."""
    exchange = str.maketrans("ABab", "BAba")
    # Words change, too, so only texts whose words of choice survive are compared.
    plain = re.sub(r"[ABab]\w+|\w+[ABab]", "", text)
    answers = parse_answer(plain), parse_answer(plain.translate(exchange))
    assert answers in {("A", "B"), ("B", "A"), (None, None)}


@given(st.text(alphabet="xyz ,.\n", max_size=30), st.text(alphabet="xyz ,.\n", max_size=30))
def test_naming_both_is_never_an_answer(before: str, between: str) -> None:
    assert parse_answer(f"{before} A {between} B") is None
