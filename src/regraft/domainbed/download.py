"""``python -m regraft.domainbed.download``: DomainBed's script of that name."""

from __future__ import annotations

import sys

from regraft.domainbed.flags import download_arguments
from regraft.domainbed.running import run


def main(given: list[str]) -> None:
    """List where the datasets are; DomainBed's own downloads one of them."""
    run(download_arguments, given)


if __name__ == "__main__":
    main(sys.argv[1:])
