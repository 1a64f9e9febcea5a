"""Verdicts of the checks of a premise."""

from __future__ import annotations

from typing import Literal

# "consistent": the data look as the premise says. "violated": they do not, beyond noise.
# "undecided": these data cannot tell.
Verdict = Literal["consistent", "violated", "undecided"]

# Level at which a premise is called violated: as far as the models of the tests
# fit, that happens to a true premise once in a hundred times.
LEVEL = 0.01

NO_COMMON_CLASSES = (
    "Fewer than two classes have rows in every source, so labels cannot be compared."
)
ONE_SOURCE = "All rows are of one source, so there is nothing to compare."


def format_p_value(p_value: float, draws: int) -> str:
    """Format a p-value from so many draws for a sentence."""
    smallest = 1 / (draws + 1)
    return f"p ≤ {smallest:.1g}" if p_value <= smallest else f"p = {p_value:.2g}"
