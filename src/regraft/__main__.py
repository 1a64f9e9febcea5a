"""Run the command line, as ``python -m regraft`` or ``regraft``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command that the user typed; an interrupt while modules load takes one line too."""
    try:
        from regraft.cli.failures import heeding_interrupts

        with heeding_interrupts():
            from regraft.cli.app import main as run
    except KeyboardInterrupt:
        sys.stderr.write("regraft: interrupted: nothing was written.\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
