"""Names of the files of a saved model."""

from __future__ import annotations

from pathlib import Path

from regraft.support.publishing import finish_publication

ARRAYS = "model.safetensors"
DESCRIPTION = "model.json"
CARD = "README.md"
REFERENCE = "reference.safetensors"  # rows of the sources; a model works without it


def is_model(path: Path) -> bool:
    """Return whether ``path`` is a folder with the files of a saved model."""
    return (path / DESCRIPTION).is_file() and (path / ARRAYS).is_file()


def find_model(path: Path) -> Path:
    """Return the folder of a saved model: the folder model in ``path``, or ``path`` itself.

    What a killed process has published there, but not yet moved to its place, is moved.
    """
    for folder in (path, path.parent):
        finish_publication(folder)
    return path / "model" if is_model(path / "model") else path
