"""What asking a language model costs: tokens, prices, and an estimate before anything is sent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from regraft.moral.elicitation import DEFAULT_MODEL
from regraft.moral.prompts import Question, system_prompt, user_prompt

CHARACTERS_PER_TOKEN = 3.5  # of English; a rule of thumb, off by some ten percent either way
TOKENS_PER_ANSWER = 5  # a letter and the end of the reply
_PER_MILLION = 1e6


@dataclass(frozen=True)
class Tokens:
    """Numbers of tokens sent and received."""

    input: int
    output: int


@dataclass(frozen=True)
class Prices:
    """US dollars for a million tokens."""

    input: float
    output: float

    def cost(self, tokens: Tokens) -> float:
        """Return the cost in US dollars."""
        return (self.input * tokens.input + self.output * tokens.output) / _PER_MILLION


PRICES = {DEFAULT_MODEL: Prices(1.0, 5.0)}


def choose_prices(
    model: str, input_price: float | None, output_price: float | None
) -> Prices | None:
    """Return the prices given, else those known for ``model``; None if there are neither."""
    if model in PRICES:
        known = PRICES[model]
        input_price = known.input if input_price is None else input_price
        output_price = known.output if output_price is None else output_price
    if input_price is None and output_price is None:
        return None
    if input_price is None or output_price is None:
        raise ValueError("one price is missing: pass both --input-price and --output-price.")
    for price in (input_price, output_price):
        if not 0 <= price < math.inf:
            raise ValueError(f"the price {price} is none: pass US dollars per million tokens.")
    return Prices(input_price, output_price)


def estimate(questions: Sequence[Question]) -> Tokens:
    """Estimate the tokens that ``questions`` will take, by the rules of thumb above."""
    characters = sum(
        len(system_prompt(q.profile)) + len(user_prompt(q.scenario, q.swapped)) for q in questions
    )
    return Tokens(math.ceil(characters / CHARACTERS_PER_TOKEN), TOKENS_PER_ANSWER * len(questions))


def dollars(cost: float) -> str:
    """Format a cost, with more digits where it is small."""
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.4f}"
