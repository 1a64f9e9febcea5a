"""``python -m regraft.domainbed.collect_results``: DomainBed's script of that name."""

from __future__ import annotations

import sys

from regraft.domainbed.flags import collect_arguments
from regraft.domainbed.running import run


def main(given: list[str]) -> None:
    """Print the tables of a folder of runs by DomainBed's rules."""
    run(collect_arguments, given)


if __name__ == "__main__":
    main(sys.argv[1:])
