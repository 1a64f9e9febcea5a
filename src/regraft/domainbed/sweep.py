"""``python -m regraft.domainbed.sweep``: DomainBed's script of that name."""

from __future__ import annotations

import sys

from regraft.domainbed.flags import sweep_arguments
from regraft.domainbed.running import refuse, run, usual_device


def main(given: list[str]) -> None:
    """Run the jobs that DomainBed's flags ask for."""
    try:
        arguments = sweep_arguments(given, usual_device())
    except ValueError as error:
        refuse(error)
        return
    if arguments is None:
        print("Nothing to delete: unfinished runs go on where they were when launched again.")
    else:
        run(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
