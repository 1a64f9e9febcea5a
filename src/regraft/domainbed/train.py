"""``python -m regraft.domainbed.train``: DomainBed's script of that name."""

from __future__ import annotations

import sys

from regraft.domainbed.flags import train_arguments
from regraft.domainbed.running import run, usual_device


def main(given: list[str]) -> None:
    """Run one job as DomainBed's flags ask for."""
    run(train_arguments, given, usual_device())


if __name__ == "__main__":
    main(sys.argv[1:])
