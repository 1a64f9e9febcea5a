"""Data files that are shipped inside the package."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any


def read_toml(package: str, name: str) -> dict[str, Any]:
    """Read the TOML file ``name`` that lies beside the modules of ``package``."""
    return tomllib.loads(files(package).joinpath(name).read_text(encoding="utf-8"))
