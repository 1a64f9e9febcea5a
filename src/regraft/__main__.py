"""Run the command line as ``python -m regraft``."""

from __future__ import annotations

from regraft.cli.app import main

if __name__ == "__main__":
    main()
