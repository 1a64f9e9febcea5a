"""Checksums that tell whether the files of a saved model are as they were written."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regraft.estimators.model_files import ARRAYS, DESCRIPTION, REFERENCE
from regraft.support.digests import digest_parts, digest_text
from regraft.support.runs import RUN

_SEAL = "sha256"


def sealed_files(path: Path) -> list[str]:
    """List the files of a model's folder that hold arrays."""
    return [ARRAYS, *(name for name in (REFERENCE,) if (path / name).is_file())]


def seal_model(description: Mapping[str, Any], arrays: Mapping[str, bytes]) -> str:
    """Write the description as JSON, with the checksums of itself and of the files of arrays."""
    return json.dumps({**description, _SEAL: _digests(description, arrays)}, indent=2)


def check_seal(path: Path, description: Mapping[str, Any], arrays: Mapping[str, bytes]) -> None:
    """Raise ``ValueError`` if a file of the model in the folder ``path`` was changed."""
    expected = description.get(_SEAL)
    if expected is None:
        warnings.warn(
            f"{path} was saved without checksums, so damage would not be noticed: save the model "
            "again.",
            stacklevel=3,
        )
        return
    # A file of reference rows may be deleted; one that is there has to be the model's.
    for name, found in _digests(description, arrays).items():
        if not isinstance(expected, dict) or found != expected.get(name):
            raise ValueError(
                f"{path} is damaged ({name} was changed since it was written): save the model "
                "again."
            )


def _digests(description: Mapping[str, Any], arrays: Mapping[str, bytes]) -> dict[str, str]:
    # The id of a run is given to a model that is finished.
    described = {name: value for name, value in description.items() if name not in (_SEAL, RUN)}
    return {
        DESCRIPTION: digest_text(json.dumps(described, sort_keys=True)),
        **{name: digest_parts([content]) for name, content in arrays.items()},
    }
