"""Names of the files of a saved model."""

from __future__ import annotations

from pathlib import Path

ARRAYS = "model.safetensors"
DESCRIPTION = "model.json"
CARD = "README.md"
REFERENCE = "reference.safetensors"  # rows of the sources; a model works without it


def is_model(path: Path) -> bool:
    """Return whether ``path`` is a folder with the files of a saved model."""
    return (path / DESCRIPTION).is_file() and (path / ARRAYS).is_file()
