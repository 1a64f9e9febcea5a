"""What an experiment is made of: scenarios, and how people respond to them."""

from __future__ import annotations

from pathlib import Path

from regraft.moral.answers import read_answers, usable
from regraft.moral.experiment import Probabilities
from regraft.moral.library import make_library
from regraft.moral.responses import describe_mechanism, response_probabilities
from regraft.moral.scenarios import Library, download_library, read_library

DOWNLOAD = "download"


def choose_library(scenarios: str | None, out: Path) -> Library:
    """Read the scenarios from a file or folder, download them, or generate them if None."""
    if scenarios is None:
        return make_library()
    return download_library(out) if scenarios == DOWNLOAD else read_library(Path(scenarios))


def choose_responses(
    library: Library, answers: Path | None, model: str | None, permissiveness: float = 0.0
) -> tuple[Library, Probabilities, str]:
    """Return the probabilities of action 1 by elicited answers, or by the documented model if None.

    With them come the scenarios that have them, and a sentence that says what made the labels.
    """
    if answers is None:
        mechanism = describe_mechanism(permissiveness)
        return library, response_probabilities(library, permissiveness=permissiveness), mechanism
    elicited = read_answers(answers, library, model=model)
    library, probabilities = usable(library, elicited)
    return library, probabilities, elicited.mechanism
