"""``python -m regraft.domainbed.train``: DomainBed's script of that name."""

from __future__ import annotations

import sys

from regraft.domainbed.flags import train_arguments
from regraft.domainbed.running import refuse, run, usual_device


def main(given: list[str]) -> None:
    """Run one job as DomainBed's flags ask for."""
    try:
        arguments = train_arguments(given, usual_device())
    except ValueError as error:
        refuse(error)
    else:
        run(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
