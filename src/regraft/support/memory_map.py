"""Arrays that lie in files: walks over them that keep only a few pages in memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def find_mapping(array: NDArray[Any]) -> mmap.mmap | None:
    """The file mapping behind an array, or None where letting go of its pages could lose data.

    Only numpy's memory maps are recognized, and not those of mode "c", whose changes are nowhere
    but in memory.
    """
    shared = False
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if isinstance(owner, np.memmap):
            shared = owner.mode != "c"
        owner = owner.base
    return owner if shared and isinstance(owner, mmap.mmap) else None


def release(mapping: mmap.mmap | None) -> None:
    """Let go of a mapping's pages; whoever needs them next reads them from the file again."""
    # Windows has no such call, and trims the pages of a process by itself.
    if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)


def released(chunks: Iterable[slice], mapping: mmap.mmap | None) -> Iterator[slice]:
    """The chunks in turn; after the work on each, the pages of ``mapping`` are let go of."""
    for rows in chunks:
        yield rows
        release(mapping)
