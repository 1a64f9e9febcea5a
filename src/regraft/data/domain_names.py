"""Names for domains that a .npz file only numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from regraft.data.columns import TableError

_NAMES = "domains"


def name_domains(path: Path, arrays: Any, domain: NDArray[Any]) -> NDArray[Any]:
    """Replace numbers in ``domain`` (n,) by the names that the file gives them, if it does.

    ``arrays`` are those of the .npz file ``path``; one of them, ``domains``, may hold the names of
    the domains 0, 1, …. Raises :class:`TableError` with one sentence if they do not fit.
    """
    if domain.dtype.kind not in "iu" or not domain.size or _NAMES not in arrays.files:
        return domain
    try:
        names = arrays[_NAMES]
    except ValueError:
        raise TableError(
            f"array {_NAMES!r} of {path} holds pickled objects: save plain strings."
        ) from None
    if names.ndim != 1 or domain.min() < 0 or domain.max() >= len(names):
        raise TableError(
            f"array {_NAMES!r} of {path} has shape {names.shape} but the domains are numbered "
            f"{domain.min()} to {domain.max()}: save one name for each number from 0 on."
        )
    named: NDArray[Any] = names[domain]
    return named
