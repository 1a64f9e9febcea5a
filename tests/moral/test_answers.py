"""From a file of answers to probabilities, by hand on few scenarios."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft.moral.answers import ANSWERS, question_args, read_answers, usable
from regraft.moral.prompts import Question
from regraft.moral.scenarios import Scenario
from regraft.moral.values import PROFILES, Profile
from regraft.support.records import Records
from tests.helpers.small_library import small_library

LIBRARY = small_library(2)


def add(
    path: Path,
    scenario: int,
    profile: Profile,
    swapped: bool,
    answer: str | None,
    *,
    model: str = "m",
    **changed: Any,
) -> None:
    args = question_args(model, Question(LIBRARY.scenarios[scenario], profile, swapped))
    record = {"args": args | changed, "answer": answer, "text": answer or "No."}
    Records(path).append(record | {"input_tokens": 10, "output_tokens": 2})


def answer_all(path: Path, scenario: int, letter: str = "A") -> None:
    for profile in PROFILES:
        for swapped in (False, True):
            add(path, scenario, profile, swapped, letter)


def test_letters_are_mapped_back_and_averaged_over_orders(tmp_path: Path) -> None:
    for scenario, profile, plain, swapped in (
        (0, 0, "A", "B"),  # action 1 twice
        (0, 1, "A", "A"),  # action 1, then 2: the place decides
        (0, 2, "B", "A"),  # action 2 twice
        (0, 3, "", "B"),  # action 1, in this order only
        (0, 4, None, ""),
        (1, 4, None, "A"),  # action 2, and a refusal
    ):
        for is_swapped, letter in ((False, plain), (True, swapped)):
            if letter != "":
                add(tmp_path / ANSWERS, scenario, PROFILES[profile], is_swapped, letter)
    answers = read_answers(tmp_path, LIBRARY)
    np.testing.assert_array_equal(answers.probabilities[0, :4], [1, 0.5, 0, 1])
    assert answers.probabilities[1, 4] == 0
    expected = np.ones((2, 27), bool)
    expected[0, :4] = expected[1, 4] = False
    np.testing.assert_array_equal(answers.missing, expected)
    np.testing.assert_array_equal(np.isnan(answers.probabilities), expected)
    assert answers.position_bias == pytest.approx(1 / 3)  # of three whole pairs one disagrees
    assert (answers.answered, answers.refused, answers.unasked) == (8, 2, 2 * 27 * 2 - 10)
    assert (answers.input_tokens, answers.output_tokens) == (100, 20)
    assert answers.model == "m" and answers.mechanism.startswith("Labels were elicited from m,")


def test_several_models_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / ANSWERS
    add(path, 0, PROFILES[0], False, "A", model="large")
    add(path, 0, PROFILES[0], False, "B", model="small")
    with pytest.raises(ValueError, match=r"several models \(large, small\): choose one"):
        read_answers(path, LIBRARY)
    assert read_answers(path, LIBRARY, model="large").probabilities[0, 0] == 1
    assert read_answers(path, LIBRARY, model="small").probabilities[0, 0] == 0
    with pytest.raises(ValueError, match="no answers of tiny: choose from large, small"):
        read_answers(path, LIBRARY, model="tiny")


def test_other_texts_and_other_prompts_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / ANSWERS
    add(path, 0, PROFILES[0], False, "A", digest="0" * 64)
    add(path, 0, PROFILES[1], False, "A", prompt="0" * 64)
    with pytest.raises(ValueError, match="has no answers about these scenarios"):
        read_answers(path, LIBRARY)
    add(path, 1, PROFILES[2], False, "A")
    assert (~read_answers(path, LIBRARY).missing).sum() == 1
    scenario = LIBRARY.scenarios[0]
    edited = Scenario(**{**scenario.__dict__, "action2": "Perhaps."})
    keys = [question_args("m", Question(s, PROFILES[0], False)) for s in (scenario, edited)]
    assert keys[0] | {"digest": ""} == keys[1] | {"digest": ""} and keys[0] != keys[1]


def test_only_scenarios_with_all_profiles_are_usable(tmp_path: Path) -> None:
    path = tmp_path / ANSWERS
    answer_all(path, 1)
    add(path, 0, PROFILES[0], False, "A")
    answers = read_answers(path, LIBRARY)
    library, probabilities = usable(LIBRARY, answers)
    assert [scenario.id for scenario in library.scenarios] == ["H_1"]
    assert library.lean.tolist() == [1.0] and library.checksum != LIBRARY.checksum
    assert "1 of them, with an answer for every profile" in library.origin
    np.testing.assert_array_equal(probabilities, np.full((1, 27), 0.5))
    assert answers.position_bias == 1.0  # always the first option
    whole = tmp_path / "whole" / ANSWERS
    answer_all(whole, 0)
    answer_all(whole, 1, "B")
    library, probabilities = usable(LIBRARY, read_answers(whole, LIBRARY))
    assert library is LIBRARY and probabilities.shape == (2, 27)


def test_no_file_no_whole_pair_and_nothing_usable_are_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"make it with regraft moral elicit\.$"):
        read_answers(tmp_path, LIBRARY)
    add(tmp_path / ANSWERS, 0, PROFILES[0], False, "A")
    answers = read_answers(tmp_path / ANSWERS, LIBRARY)
    assert answers.position_bias is None
    with pytest.raises(ValueError, match="none of the 2 scenarios has an answer of m for every"):
        usable(LIBRARY, answers)
