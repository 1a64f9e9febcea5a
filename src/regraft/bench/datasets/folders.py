"""Folders of images in DomainBed's layout, environment/class/file, read when they are needed."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regraft.bench.datasets.augmentation import SIZE, Style, prepare_image
from regraft.bench.datasets.base import Environment, RegisteredDataset, data_folder, dataset
from regraft.bench.protocol.spaces import whole_power
from regraft.data.image_files import use_image
from regraft.data.image_folders import holds_images, list_entries
from regraft.support.digests import digest_parts
from regraft.support.extras import require

# Mean and deviation of red, green and blue over ImageNet, in [0, 1].
_END_OF_JPEG = b"\xff\xd9"
_DIGITS = 12  # of the checksum of a folder's list of files
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Listing:
    """The images of one environment."""

    paths: tuple[str, ...]
    labels: tuple[int, ...]


class Images(Environment):
    """Images that are decoded when they are asked for."""

    is_in_memory = False

    def __init__(self, listing: Listing, device: torch.device, style: Style = "crop") -> None:
        self._paths, self._device, self._style = listing.paths, device, style
        self._cut_off: set[str] = set()  # paths
        self.y = torch.tensor(listing.labels, device=device)

    def inputs(self, rows: Tensor, augmentation: int | None = None) -> Tensor:
        """Read images as (b, 3, 224, 224), normalized as for ImageNet.

        The changes of an image depend on ``augmentation`` and its position in ``rows`` alone.
        An image that ends too early is taken as far as it goes, with a warning for the first. A
        file that is no image raises ``ValueError``.
        """
        paths = [self._paths[row] for row in rows.tolist()]
        seeds = [None if augmentation is None else (augmentation, i) for i in range(len(paths))]
        pixels = np.empty((len(paths), SIZE, SIZE, 3), np.uint8)
        # Pillow lets other threads run while it decodes.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            read = pool.map(self._read_pixels, paths, seeds)
            for i, (image, is_whole) in enumerate(read):
                pixels[i] = image
                if not is_whole:
                    self._note(paths[i])
        x = torch.from_numpy(pixels).to(self._device).permute(0, 3, 1, 2)
        mean, deviation = (
            torch.tensor(values, device=self._device)[:, None, None]
            for values in (_MEAN, _DEVIATION)
        )
        return ((x / 255 - mean) / deviation).contiguous()

    def _read_pixels(
        self, path: str, seed: tuple[int, int] | None
    ) -> tuple[NDArray[np.uint8], bool]:
        """Read an image as (224, 224, 3), and whether it is whole."""
        image, is_whole = use_image(path, _decode)
        return np.asarray(prepare_image(image, seed, self._style)), is_whole

    def _note(self, path: str) -> None:
        """Count an image that ends too early, and tell of the first."""
        if not self._cut_off:
            warnings.warn(
                f"{path} ends too early and is taken as far as it goes: replace it, and any other "
                "that the records count as cut off.",
                stacklevel=4,
            )
        self._cut_off.add(path)
        self.cut_off = len(self._cut_off)


class ListedImages(RegisteredDataset):
    """Base of the datasets whose images are files; nothing is read until they are used."""

    input_shape = (3, SIZE, SIZE)
    group = "images"
    style: ClassVar[Style] = "crop"

    @cached_property
    def listings(self) -> list[Listing]:
        """The images of every environment."""
        raise NotImplementedError

    def environments(self, seed: int, device: torch.device) -> list[Images]:
        """List the images of every environment; nothing is drawn, so ``seed`` does not matter."""
        return [Images(listing, device, self.style) for listing in self.listings]

    def check(self) -> None:
        """Look for the images and what reads them."""
        _ = self.listings
        require("PIL.Image", "images")
        require("timm", "images")


class ImageFolders(ListedImages):
    """Base of the datasets that are a folder of images."""

    folder: ClassVar[str]  # in the folder of all data
    checkpoint_freq = 300

    def __init__(self, data: Path | None = None) -> None:
        super().__init__(data)
        self.root = data_folder(data) / self.folder

    @cached_property
    def listings(self) -> list[Listing]:
        """The images of every environment."""
        if not self.root.is_dir():
            raise FileNotFoundError(
                f"there is no folder {self.root}: name the folder that holds {self.folder} with "
                "--data or REGRAFT_DATA."
            )
        environments = list_entries(self.root).folders
        self._check_count("environments", environments, len(self.env_names))
        classes = list_classes(self.root, environments)
        self._check_count("classes", classes, self.n_classes)
        return [_list_images(self.root / environment, classes) for environment in environments]

    def _check_count(self, kind: str, found: Sequence[str], expected: int) -> None:
        if len(found) != expected:
            shown = ", ".join(found[:12]) or "none"
            raise ValueError(
                f"{self.name} has {expected} {kind} but {self.root} has folders for {len(found)} "
                f"({shown}{', …' if len(found) > 12 else ''}): make it one folder for each."
            )


class NamedFolder(ImageFolders):
    """A folder of images that no class of ours knows: its own names are those of the dataset."""

    def __init__(self, root: Path) -> None:
        self.name = self.folder = root.name  # type: ignore[misc]
        super().__init__(root.parent)
        self.env_names = tuple(list_entries(root).folders)
        self.n_classes = len(list_classes(root, self.env_names))
        paths = [Path(path) for listing in self.listings for path in listing.paths]
        places = (f"{path.relative_to(root).as_posix()}\n".encode() for path in paths)
        self.fingerprint = digest_parts(places)[:_DIGITS]


@dataset("SVIRO")
class SVIRO(ImageFolders):
    """Seats of ten models of cars: empty, or with a person, a child's seat or a thing on them.

    Its classes are those that the folders have, as for DomainBed.
    """

    folder = "sviro"
    env_names = (
        "aclass",
        "escape",
        "hilux",
        "i3",
        "lexus",
        "tesla",
        "tiguan",
        "tucson",
        "x5",
        "zoe",
    )

    @cached_property
    def n_classes(self) -> int:  # type: ignore[override]
        """The number of classes."""
        return len(list_classes(self.root, list_entries(self.root).folders))


def list_classes(root: Path, environments: Sequence[str]) -> list[str]:
    """List the classes that any of the ``environments`` in ``root`` has a folder for, sorted."""
    return sorted({name for each in environments for name in list_entries(root / each).folders})


def list_folders(data: Path | None = None) -> list[str]:
    """List the names that ``find_folder`` finds and that hold images, sorted."""
    place, found = data_folder(data), []
    for name in list_entries(place).folders if place.is_dir() else ():
        with suppress(OSError):  # a folder that may not be read is none of ours
            found += [name] if find_folder(name, data) and holds_images(place / name) else []
    return found


def find_folder(name: str, data: Path | None = None) -> Path | None:
    """Find the folder ``name`` with two domains or more, each with folders of classes."""
    root = data_folder(data) / name
    if not name or not root.is_dir():
        return None
    domains = list_entries(root).folders
    has_classes = all(list_entries(root / domain).folders for domain in domains)
    return root.absolute() if len(domains) > 1 and has_classes else None


def _register(name: str, folder: str, environments: str, n_classes: int, **others: Any) -> None:
    """Register one of DomainBed's datasets, which differ in these facts only."""
    facts = {"folder": folder, "env_names": tuple(environments.split()), "n_classes": n_classes}
    dataset(name)(type(name, (ImageFolders,), facts | others))


_register("VLCS", "VLCS", "C L S V", 5)  # photographs of Caltech101, LabelMe, SUN09 and VOC2007
_register("PACS", "PACS", "A C P S", 7)  # art paintings, cartoons, photographs and sketches
_register("OfficeHome", "office_home", "A C P R", 65)  # art, clip art, products, the real world
# Wild animals at four camera traps, whose folders are sorted as text.
_register("TerraIncognita", "terra_incognita", "L100 L38 L43 L46", 10)
# Clip art, infographics, paintings, quick drawings, photographs and sketches.
_register(
    *("DomainNet", "domain_net", "clip info paint quick real sketch", 345),
    checkpoint_freq=1000,
    own_space={"batch_size": whole_power(32, 2, 3, 5)},
)


def _list_images(environment: Path, classes: Sequence[str]) -> Listing:
    paths: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        images = list(_images_below(environment / name))
        paths += images
        labels += [label] * len(images)
    if not paths:
        raise ValueError(f"{environment} holds no images: fill its class folders.")
    return Listing(tuple(paths), tuple(labels))


def _images_below(folder: Path) -> Iterator[str]:
    """Yield the paths of the images in a folder, then of those in the folders in it, sorted."""
    if not folder.is_dir():  # an environment without this class
        return
    entries = list_entries(folder, of_class=True)
    yield from (str(folder / name) for name in entries.images)
    for name in entries.folders:
        if not (folder / name).is_symlink():  # which might lead upwards
            yield from _images_below(folder / name)


def _decode(file: Any) -> tuple[Any, bool]:
    """Convert an image to colours; what a file that ends too early lacks stays black or grey."""
    try:
        file.load()
    except OSError as error:
        if "truncated" not in str(error):
            raise
        if file.format == "JPEG":  # its decoder goes on to the end of the image that it is told
            content = Path(file.filename).read_bytes() + _END_OF_JPEG
            with require("PIL.Image", "images").open(io.BytesIO(content)) as ended:
                return ended.convert("RGB"), False
        file.tile = []  # so that Pillow takes the pixels decoded so far for all
        return file.convert("RGB"), False
    return file.convert("RGB"), True
