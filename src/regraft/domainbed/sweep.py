"""``python -m regraft.domainbed.sweep``: DomainBed's script of that name."""

from __future__ import annotations

import sys

from regraft.domainbed.flags import sweep_arguments
from regraft.domainbed.running import run, usual_device


def main(given: list[str]) -> None:
    """Run the jobs that DomainBed's flags ask for."""
    run(sweep_arguments, given, usual_device())


if __name__ == "__main__":
    main(sys.argv[1:])
