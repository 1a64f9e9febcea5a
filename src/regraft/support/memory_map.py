"""Arrays in files: walk over them with only a few pages in memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def find_mapping(array: NDArray[Any]) -> mmap.mmap | None:
    """Find the file mapping of an array; None where dropping its pages could lose data.

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
    """Drop a mapping's pages from memory; they are read from the file again when needed."""
    # Windows has no such call, and trims the pages of a process by itself.
    if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)


def released(chunks: Iterable[slice], mapping: mmap.mmap | None) -> Iterator[slice]:
    """Yield the chunks in turn, and drop the pages of ``mapping`` after the work on each."""
    for rows in chunks:
        yield rows
        release(mapping)
