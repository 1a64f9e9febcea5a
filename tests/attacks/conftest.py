"""How many cases each attack tries: few by default, ``--attack-number N`` for more."""

from collections.abc import Callable

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "try this many cases of every attack, instead of the few that take seconds"
    parser.addoption("--attack-number", type=int, metavar="N", help=text)


@pytest.fixture(scope="session")
def attack_number(request: pytest.FixtureRequest) -> Callable[[int, float], int]:
    """Return ``few`` cases, or the given share of the number that was asked for."""

    def choose(few: int, share: float = 1.0) -> int:
        # The option is there only if this folder is named on the command line.
        asked = request.config.getoption("--attack-number", default=None)
        return few if asked is None else max(1, round(share * asked))

    return choose
