"""The rules that lead from numbers to answers, one by one."""

import re
from dataclasses import replace

import pytest

from regraft.premises.answers import QUESTIONS, Answer, Findings, answer_questions
from regraft.premises.hidden_factor import CLEAR_SEPARATION
from regraft.premises.sample_size import COARSE
from regraft.support.json_files import dumps
from tests.helpers.evidence import make_evidence, possible_evidence


def answers(evidence: Findings) -> dict[str, Answer]:
    return {each.question: each for each in answer_questions(evidence)}


def advice(evidence: Findings) -> Answer:
    return answers(evidence)["What should I do?"]


def test_disagreement_and_a_shared_factor_ask_for_cro() -> None:
    found = answers(make_evidence())
    factor, inputs, enough, do = (found[question] for question in QUESTIONS)
    assert (factor.answer, factor.number) == ("yes", "p ≤ 0.01")
    assert "group 1 is 10% of Bern and 40% of Chur" in factor.sentence
    assert "0.0300 ± 0.0020 nats" in factor.sentence
    assert (inputs.answer, inputs.number) == ("no", "p ≤ 0.001")
    assert "most clearly Chur (p = 0.002 by itself)" in inputs.sentence
    assert (enough.answer, enough.number) == ("yes", "± 4.0 points")
    assert "class ill of Bern with 300 rows" in enough.sentence
    assert "its share in Bern differs by less than about 7 points" in enough.sentence
    assert (do.answer, do.number) == ("use CRO", "p ≤ 0.001, p ≤ 0.01")
    assert "p ≤ 0.001" in do.sentence and "p ≤ 0.01" in do.sentence
    assert dumps([each.to_dict() for each in found.values()])


def test_weak_signs_have_the_words_of_a_fit() -> None:
    evidence = make_evidence()
    weak = replace(evidence, factor=replace(evidence.factor, separation=CLEAR_SEPARATION - 0.1))
    found = answers(weak)
    assert found["Is there a hidden factor?"].answer == "weak signs"
    assert "the signs of a hidden factor are weak" in found["Is there a hidden factor?"].sentence
    do = found["What should I do?"]
    assert do.answer == "try CRO" and do.sentence.startswith("Try CRO (regraft fit)")
    assert "seem to mix a hidden factor" in do.sentence and "signs are weak" in do.sentence
    assert "cost less on the sources than it gains" in do.sentence
    clear = answers(evidence)["Is there a hidden factor?"]
    assert clear.answer == "yes" and clear.sentence.startswith("The rows fall into")


def test_without_disagreement_erm_is_enough_whatever_the_factor() -> None:
    for factor in ("shared", "lone", "none"):
        found = answers(make_evidence(labels="alike", factor=factor))
        assert found["Do the sources differ in inputs only?"].answer == "as far as seen"
        do = found["What should I do?"]
        assert (do.answer, do.number) == ("use ERM", "p = 0.4")


def test_disagreement_that_no_group_explains_asks_for_a_column() -> None:
    do = advice(make_evidence(factor="none"))
    assert do.answer == "use ERM" and "name it with regraft diagnose --group." in do.sentence
    assert "most clearly Chur (p = 0.002 by itself)" in do.sentence
    assert "--group" not in advice(make_evidence(factor="none", observed=True)).sentence
    do = advice(make_evidence(observed=True, violated=True))
    assert (do.answer, do.number) == ("use ERM", "p ≤ 0.001")
    assert "even within the groups given" in do.sentence


def test_groups_of_one_source_are_not_taken_for_a_factor() -> None:
    found = answers(make_evidence(factor="lone"))
    assert found["Is there a hidden factor?"].answer == "maybe"
    assert "only Chur has group 1" in found["Is there a hidden factor?"].sentence
    do = found["What should I do?"]
    assert do.answer == "collect labels" and do.number == "40% of Chur"
    assert "rows like group 1 outside of Chur" in do.sentence


def test_groups_that_tell_no_more_than_chance_are_no_reason_for_cro() -> None:
    evidence = make_evidence()
    found = answers(replace(evidence, factor=replace(evidence.factor, gain_error=0.02)))
    assert found["Is there a hidden factor?"].answer == "maybe"
    assert "which may be chance" in found["Is there a hidden factor?"].sentence
    assert found["What should I do?"].answer == "use ERM"


def test_sources_that_share_no_inputs_cannot_be_compared() -> None:
    found = answers(make_evidence(labels="apart"))
    assert found["Do the sources differ in inputs only?"].answer == "cannot tell"
    do = found["What should I do?"]
    assert do.answer == "collect labels" and do.number == "20 rows"
    assert "rows of Bern and Chur with like inputs: 90% of their inputs" in do.sentence


def test_too_few_rows_come_first_and_name_source_and_class() -> None:
    found = answers(make_evidence(fewest=29))
    assert found["Is there enough data?"].answer == "no"
    do = found["What should I do?"]
    assert (do.answer, do.number) == ("collect labels", "29 rows")
    assert "class ill in Bern, or leave Bern out: there are 29 rows, and 30 are" in do.sentence
    assert advice(make_evidence(fewest=30)).answer == "use CRO"


def test_coarse_accuracies_say_how_many_rows_are_missing() -> None:
    evidence = make_evidence(margin=2 * COARSE)
    found = answers(evidence)
    assert found["Is there enough data?"].answer == "barely"
    n = evidence.size.n_rows("Bern")
    assert evidence.size.missing_rows("Bern") == 3 * n  # half the margin takes four times the rows
    assert f"about {3 * n} more rows there" in found["What should I do?"].sentence


def test_one_source_reads_well() -> None:
    found = answer_questions(make_evidence(sources=1))
    answered = [each.answer for each in found]
    assert answered == ["cannot tell", "cannot tell", "yes", "collect labels"]
    assert found[-1].sentence.startswith("Collect labelled rows of a second source: Bern alone")
    said = " ".join(each.sentence for each in found)
    assert not re.search(r"\b1 (source|domain)s|others|\bnan\b", said)


def test_sources_that_are_no_mixtures() -> None:
    evidence = make_evidence(factor="none")
    found = answers(replace(evidence, factor=replace(evidence.factor, p_value=0.02)))
    factor = found["Is there a hidden factor?"]
    assert (factor.answer, factor.number) == ("none found", "p = 0.02")
    assert "not as mixtures of the same groups" in factor.sentence


@pytest.mark.parametrize("evidence", possible_evidence())
def test_every_answer_has_words_and_a_number(evidence: Findings) -> None:
    for each in answer_questions(evidence):
        assert each.answer and re.search(r"\d", each.number)
        assert each.sentence.endswith(".") and "\n" not in each.sentence
        assert not re.search(r"\bnan\b|\binf\b|[a-z]_[a-z]|\w=", each.sentence)
    do = answer_questions(evidence)[-1]
    assert do.sentence.lower().startswith(do.answer.lower().replace("labels", "label"))
