"""Images to embed, decoded by several threads while the encoder computes."""

from __future__ import annotations

import json
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from regraft.data.bank_writer import Input, Skipped
from regraft.data.image_files import BrokenImage, read_image
from regraft.data.image_folders import check_source, list_all, list_folder, list_table
from regraft.data.input_blocks import Block, InputSource, Survey
from regraft.support.extras import require

ON_BROKEN = ("stop", "skip")
_LISTING = "listing.jsonl"
_AHEAD = 2  # blocks decoded while one is encoded

Pixels = NDArray[np.uint8]


_Read = tuple[Pixels, Input, str | None, str | None]  # with label and domain


class ImageInputs(InputSource[Pixels]):
    """The images of a folder in the layout domain/class/file, or of a .csv with their paths.

    Without ``label`` or ``domain``, no such column is read; without both, a folder may have any
    layout, and one image will do. ``pixels`` turns an open image into an array (h, w, 3), the same
    shape for all, in threads.
    """

    kind = "images"
    block_rows = 64

    def __init__(
        self,
        path: Path,
        pixels: Callable[[Any], Pixels],
        *,
        image: str = "path",
        label: str | None = "label",
        domain: str | None = "domain",
        on_broken: str = "stop",
    ) -> None:
        check_source(path)
        if on_broken not in ON_BROKEN:
            raise ValueError(f"on-broken is {on_broken!r}: choose from {', '.join(ON_BROKEN)}.")
        require("PIL.Image", "images")
        self._path, self._pixels = path, pixels
        self._image, self._tags = image, {"label": label, "domain": domain}
        self._root = path if path.is_dir() else path.parent.resolve()  # as in the listing
        self.may_skip = on_broken == "skip"

    def survey(self, folder: Path) -> Survey:
        """List all images in a file in ``folder``, and count them."""
        with (folder / _LISTING).open("wb") as file:
            if self._path.suffix.lower() == ".csv" and self._path.is_file():
                return list_table(self._path, file, image=self._image, **self._tags)
            if None in self._tags.values() or not self._path.is_dir():
                return list_all(self._path, file)
            return list_folder(self._path, file)

    def blocks(self, folder: Path, first: int) -> Iterator[Block[Pixels]]:
        """Yield blocks of pixels (b, h, w, 3), keyed by paths from the folder or the table's."""
        pool = ThreadPoolExecutor(os.cpu_count())
        coming: deque[list[Future[_Read | Skipped]]] = deque()
        try:
            with (folder / _LISTING).open("rb") as file:
                for lines in self._batches(file, first):
                    coming.append([pool.submit(self._read, line) for line in lines])
                    if len(coming) > _AHEAD:
                        yield self._await(coming.popleft())
            while coming:
                yield self._await(coming.popleft())
        finally:
            pool.shutdown(cancel_futures=True)

    def parts(self, folder: Path, first: int) -> Iterator[list[bytes]]:
        """Yield the lines of blocks in the list of images."""
        with (folder / _LISTING).open("rb") as file:
            yield from self._batches(file, first)

    def read(self, part: list[bytes]) -> Block[Pixels]:
        """Decode the images of a block, one after the other."""
        return _gather([self._read(line) for line in part])

    def check(self, block: Block[Any]) -> None:
        """Raise ``ValueError`` for broken images, or warn if they are left out."""
        for broken in block.skipped:
            self._report(broken)

    def _batches(self, file: BinaryIO, first: int) -> Iterator[list[bytes]]:
        lines = islice(file, first, None)
        while batch := list(islice(lines, self.block_rows)):
            yield batch

    def _await(self, coming: Sequence[Future[_Read | Skipped]]) -> Block[Pixels]:
        block = _gather([future.result() for future in coming])
        self.check(block)
        return block

    def _read(self, line: bytes) -> _Read | Skipped:
        (key, _), label, domain = json.loads(line)
        try:
            pixels, sha256 = read_image(self._root / key, self._pixels)
        except BrokenImage as error:
            return Skipped(key, error.reason)
        return pixels, Input(key, sha256), label, domain

    def _report(self, broken: Skipped) -> None:
        path = str(self._root / broken.key).encode(errors="backslashreplace").decode()
        if not self.may_skip:
            raise ValueError(
                f"{path} cannot be read as an image ({broken.reason}): replace it, or leave such "
                "images out with --on-broken skip."
            )
        warnings.warn(f"{path} is left out ({broken.reason}).", stacklevel=2)


def _gather(results: Sequence[_Read | Skipped]) -> Block[Pixels]:
    skipped = tuple(each for each in results if isinstance(each, Skipped))
    read = [each for each in results if not isinstance(each, Skipped)]
    if not read:
        return Block(np.empty((0, 0, 0, 3), np.uint8), (), (), (), skipped)
    pixels, inputs, labels, domains = zip(*read, strict=True)
    return Block(np.stack(pixels), inputs, labels, domains, skipped)
