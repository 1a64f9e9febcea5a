"""The file of a language model's answers, and the response probabilities computed from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regraft.moral.prompts import PROMPT_VERSION, Question
from regraft.moral.responses import describe_mechanism, response_probabilities
from regraft.moral.scenarios import Library, Scenario, collect
from regraft.moral.values import PROFILES
from regraft.support.digests import digest_text
from regraft.support.records import Records
from regraft.support.schema import COUNT, FLAG, OBJECT, TEXT, Kind, check_fields, one_of, or_null

ANSWERS = "answers.jsonl"  # in the folder of an elicitation
MECHANISM = (
    "Labels were elicited from {model}, asked which action a person with the given values takes, "
    "in both orders of the two actions; no person answered."
)
_ORDERS = (False, True)  # of Question.swapped


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of one model about the n scenarios of a library, for each of the 27 profiles.

    ``probabilities`` (n, 27) of action 1 are means over the answered orders of the two actions,
    NaN where ``missing`` (n, 27): where neither order has an answer. ``position_bias`` is the
    share of pairs of answered orders that disagree on the action, None if there is no pair.
    """

    model: str
    probabilities: NDArray[np.float64]
    missing: NDArray[np.bool_]
    position_bias: float | None
    answered: int  # questions, of which there are two for each scenario and profile
    refused: int  # with a refusal or an unclear reply
    unasked: int
    input_tokens: int
    output_tokens: int

    @property
    def mechanism(self) -> str:
        """Say in one sentence where the labels come from."""
        return MECHANISM.format(model=self.model)


def question_args(model: str, question: Question) -> dict[str, Any]:
    """Identify an answer: the model, and everything that it was asked."""
    return {
        "model": model,
        "prompt": PROMPT_VERSION,
        "scenario": question.scenario.id,
        "digest": _digest(question.scenario),
        "profile": list(question.profile),
        "swapped": question.swapped,
    }


_ANSWER = {
    "args": OBJECT,
    "answer": or_null(one_of("A", "B")),
    "text": TEXT,
    "input_tokens": COUNT,
    "output_tokens": COUNT,
}
_PROFILES = [list(profile) for profile in PROFILES]
_QUESTION = {
    "model": TEXT,
    "prompt": TEXT,
    "scenario": TEXT,
    "digest": TEXT,
    "profile": Kind("a profile of three values", lambda value: value in _PROFILES),
    "swapped": FLAG,
}


def check_answer(record: dict[str, Any]) -> None:
    """Raise ``ValueError`` with the reason unless ``record`` is an answer to a question."""
    check_fields(record, _ANSWER)
    check_fields(record["args"], _QUESTION, where="args")


def read_answers(path: Path, library: Library, *, model: str | None = None) -> Answers:
    """Read the answers about ``library`` from ``path``, a file or the folder of an elicitation.

    Answers to other texts or to other prompts are left out. Raises ``FileNotFoundError`` or
    ``ValueError`` with one sentence, also if several models answered and ``model`` names none.
    """
    path = path / ANSWERS if path.is_dir() else path
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}: make it with regraft moral elicit.")
    rows = {(s.id, _digest(s)): i for i, s in enumerate(library.scenarios)}
    found = [r for r in Records(path, check_answer).read() if _row(r, rows) is not None]
    if not found:
        raise ValueError(
            f"{path} has no answers about these scenarios in this version's words: elicit them "
            "with regraft moral elicit."
        )
    chosen = _choose(path, {str(record["args"]["model"]) for record in found}, model)
    return _tally(chosen, [r for r in found if r["args"]["model"] == chosen], rows)


def usable(library: Library, answers: Answers) -> tuple[Library, NDArray[np.float64]]:
    """Keep the scenarios with an answer for every profile, and their probabilities (m, 27)."""
    kept = np.flatnonzero(~answers.missing.any(axis=1))
    if len(kept) == 0:
        raise ValueError(
            f"none of the {len(library.scenarios)} scenarios has an answer of {answers.model} for "
            "every profile: run regraft moral elicit to its end, or choose another model."
        )
    if len(kept) == len(library.scenarios):
        return library, answers.probabilities
    origin = f"{library.origin}; {len(kept)} of them, with an answer for every profile"
    scenarios = [library.scenarios[i] for i in kept]
    return collect(scenarios, library.lean[kept], origin), answers.probabilities[kept]


def choose_responses(
    library: Library, answers: Path | None, model: str | None, permissiveness: float = 0.0
) -> tuple[Library, NDArray[np.float64], str]:
    """Return the probabilities of action 1 by elicited answers, or by the documented model if None.

    With them come the scenarios that have them, and a sentence that says what made the labels.
    """
    if answers is None:
        mechanism = describe_mechanism(permissiveness)
        return library, response_probabilities(library, permissiveness=permissiveness), mechanism
    elicited = read_answers(answers, library, model=model)
    library, probabilities = usable(library, elicited)
    return library, probabilities, elicited.mechanism


def _digest(scenario: Scenario) -> str:
    """Hash the texts of a scenario (sha256)."""
    texts = [scenario.context, scenario.action1, scenario.action2]
    return digest_text(json.dumps(texts))


def _row(record: Mapping[str, Any], rows: Mapping[tuple[str, str], int]) -> int | None:
    """Find the scenario that a record is about; None for other scenarios or other prompts."""
    args = record["args"]
    if args.get("prompt") != PROMPT_VERSION:
        return None
    return rows.get((args.get("scenario"), args.get("digest")))


def _choose(path: Path, models: set[str], model: str | None) -> str:
    """Choose the model to read; ``ValueError`` if that is unclear or it never answered."""
    known = ", ".join(sorted(models))
    if model is None and len(models) > 1:
        raise ValueError(
            f"{path} has answers of several models ({known}): choose one of them with model."
        )
    if model is not None and model not in models:
        raise ValueError(f"{path} has no answers of {model}: choose from {known}.")
    return model or known


def _tally(
    model: str, records: Sequence[Mapping[str, Any]], rows: Mapping[tuple[str, str], int]
) -> Answers:
    """Count the answers of one model."""
    columns = {profile: j for j, profile in enumerate(PROFILES)}
    # By scenario, profile and order: 1 if action 1 was chosen, 0 if action 2, NaN without answer.
    first = np.full((len(rows), len(PROFILES), len(_ORDERS)), np.nan)
    for record in records:
        args = record["args"]
        i, j = rows[args["scenario"], args["digest"]], columns[tuple(args["profile"])]
        if record["answer"] is not None:
            is_action1 = (record["answer"] == "A") != args["swapped"]
            first[i, j, _ORDERS.index(args["swapped"])] = is_action1
    is_there = ~np.isnan(first)
    orders = is_there.sum(axis=2)
    missing = orders == 0
    chosen = np.where(is_there, first, 0.0).sum(axis=2)
    both = orders == len(_ORDERS)
    answered = int(is_there.sum())
    return Answers(
        model=model,
        probabilities=np.where(missing, np.nan, chosen / np.maximum(orders, 1)),
        missing=missing,
        position_bias=float((chosen[both] == 1).mean()) if both.any() else None,
        answered=answered,
        refused=len(records) - answered,
        unasked=first.size - len(records),
        input_tokens=sum(record["input_tokens"] for record in records),
        output_tokens=sum(record["output_tokens"] for record in records),
    )
