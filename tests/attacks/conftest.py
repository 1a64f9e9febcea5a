"""Which cases each attack tries: few by default, ``--attack-number N`` for more."""

from collections.abc import Callable

import pytest

_APART = 78 * 10**6  # between the cases of two seeds; a multiple of the kinds of numerical problems


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "try this many cases of every attack, instead of the few that take seconds"
    parser.addoption("--attack-number", type=int, metavar="N", help=text)
    text = "leave out this many cases, which were tried before (default 0)"
    parser.addoption("--attack-first", type=int, metavar="FIRST", default=0, help=text)
    text = "draw other cases: those of this seed (default 0)"
    parser.addoption("--attack-seed", type=int, metavar="SEED", default=0, help=text)


@pytest.fixture(scope="session")
def attack_cases(request: pytest.FixtureRequest) -> Callable[..., range]:
    """Return the numbers of ``few`` cases, or of the given share of what was asked for."""

    def choose(few: int, share: float = 1.0) -> range:
        # The options are there only if this folder is named on the command line.
        asked = request.config.getoption("--attack-number", default=None)
        base = _APART * request.config.getoption("--attack-seed", default=0)
        if asked is None:
            return range(base, base + few)
        first = request.config.getoption("--attack-first", default=0)
        start, end = round(share * first), round(share * (first + asked))
        return range(base + start, base + max(start + 1, end))

    return choose
