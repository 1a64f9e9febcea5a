"""``python -m regraft.domainbed.collect_results``: DomainBed's script of that name."""

from __future__ import annotations

import sys

from regraft.domainbed.flags import collect_arguments
from regraft.domainbed.running import refuse, run


def main(given: list[str]) -> None:
    """Print the tables of a folder of runs by DomainBed's rules."""
    try:
        arguments = collect_arguments(given)
    except ValueError as error:
        refuse(error)
    else:
        run(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
