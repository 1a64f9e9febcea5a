"""Folders of images, decoded once into tensors and kept in files."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regraft.bench.datasets.folders import Listing
from regraft.bench.protocol.cache import read_cache, write_cache
from regraft.data.image_files import use_image
from regraft.support.digests import digest_file, digest_parts
from regraft.support.extras import require
from regraft.support.progress import Countdown, OnProgress

# Raised by hand when the code changes the pixels, so that old files do not answer.
FORMAT = 1
# A random crop has 70 to 100% of an image, so of this many times the size it is about the size.
_MARGIN = 8 / 7
_TELL_EVERY = 250  # images

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Pictures:
    """Images and their labels, on one device."""

    pixels: Tensor  # (n, 3, s, s) uint8, stretched to squares
    y: Tensor  # (n,) int64
    aspects: Tensor  # (n,) width to height of the files' own images, on the CPU


def fingerprint(listings: Sequence[Listing]) -> str:
    """Compute the checksum of the content, class and order of all files, wherever they lie."""

    def parts() -> Iterator[bytes]:
        for listing in listings:
            digests = _map(digest_file, listing.paths)
            for label, content in zip(listing.labels, digests, strict=True):
                yield f"{label} {content}\n".encode()
            yield b"\n"

    return digest_parts(parts())


def load_pictures(
    listings: Sequence[Listing],
    data: str,
    size: int,
    folder: Path,
    on_progress: OnProgress,
) -> list[Pictures]:
    """Return all images by environment, decoding into ``folder`` those that it lacks.

    ``data`` is their fingerprint. They are stored as squares of one size: that of the largest, but
    not much more than ``size``, which is what a network is to see. Raises ``ValueError`` with one
    sentence for a file that is no image.
    """
    key = {"format": FORMAT, "data": data, "size": size}
    paths = [folder / f"{env}.safetensors" for env in range(len(listings))]
    keys = [key | {"env": env} for env in range(len(listings))]
    kept = [read_cache(path, key) for path, key in zip(paths, keys, strict=True)]
    if None in kept:
        countdown = Countdown("images", sum(len(listing.paths) for listing in listings))
        paths_of_all = [path for listing in listings for path in listing.paths]
        side = min(math.ceil(_MARGIN * size), max(_map(_longer_side, paths_of_all)))
        done = 0
        for env, listing in enumerate(listings):
            if kept[env] is None:

                def tell(images: int, before: int = done) -> None:
                    on_progress(countdown.advance(before + images))

                tensors = _decode(listing, side, tell)
                write_cache(paths[env], keys[env], tensors)
                kept[env] = tensors
            done += len(listing.paths)
    return [Pictures(**tensors) for tensors in kept if tensors is not None]


def _decode(listing: Listing, side: int, on_progress: Callable[[int], None]) -> dict[str, Tensor]:
    n = len(listing.paths)
    pixels = torch.empty((n, 3, side, side), dtype=torch.uint8)
    aspects = torch.empty(n)
    decoded = _map(lambda path: _read(path, side), listing.paths)
    for i, (image, aspect) in enumerate(decoded, start=1):
        pixels[i - 1] = torch.from_numpy(image).permute(2, 0, 1)
        aspects[i - 1] = aspect
        if i % _TELL_EVERY == 0 or i == n:
            on_progress(i)
    return {"pixels": pixels, "y": torch.tensor(listing.labels), "aspects": aspects}


def _map(function: Callable[[str], _Result], paths: Sequence[str]) -> Iterator[_Result]:
    """Call ``function`` for every path, in order; files are read while others are decoded."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(function, paths)


def _longer_side(path: str) -> int:
    return use_image(path, lambda image: int(max(image.size)))


def _read(path: str, side: int) -> tuple[NDArray[np.uint8], float]:
    """Read an image as (side, side, 3), and its width to height."""

    def read(image: Any) -> tuple[NDArray[np.uint8], float]:
        aspect = image.width / image.height
        image.draft("RGB", (side, side))  # lets JPEG skip most of what a large file holds
        image = image.convert("RGB")
        if image.size != (side, side):
            bilinear = require("PIL.Image", "images").Resampling.BILINEAR
            image = image.resize((side, side), bilinear)
        return np.array(image), aspect

    return use_image(path, read)
