"""Names for domains that a .npz file only numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NAMES = "domains"


def named_domains(path: Path, domain: NDArray[Any]) -> NDArray[Any]:
    """``domain`` (n,) with numbers replaced by the names that the file gives them, if it does.

    ``path`` is what ``domain`` was read from; a .npz file may hold the names of the domains
    0, 1, … as an array ``domains``. Raises ``ValueError`` with one sentence if they do not fit.
    """
    if path.is_dir() or path.suffix.lower() != ".npz" or domain.dtype.kind not in "iu":
        return domain
    with np.load(path, allow_pickle=False) as arrays:
        if _NAMES not in arrays.files:
            return domain
        try:
            names = arrays[_NAMES]
        except ValueError:
            raise ValueError(
                f"array {_NAMES!r} of {path} holds pickled objects: save plain strings."
            ) from None
    if names.ndim != 1 or domain.min() < 0 or domain.max() >= len(names):
        raise ValueError(
            f"array {_NAMES!r} of {path} has shape {names.shape} but the domains are numbered "
            f"{domain.min()} to {domain.max()}: save one name for each number from 0 on."
        )
    named: NDArray[Any] = names[domain]
    return named
