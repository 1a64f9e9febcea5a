"""Folders of images in DomainBed's layout, environment/class/file, read when they are needed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regraft.bench.datasets.augmentation import SIZE, change_image, draw_change, resize
from regraft.bench.datasets.base import Environment, RegisteredDataset, dataset
from regraft.bench.protocol.spaces import whole_power
from regraft.data.image_files import use_image
from regraft.data.image_folders import list_entries
from regraft.support.extras import require

# Mean and deviation of red, green and blue over ImageNet, in [0, 1].
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Listing:
    """The images of one environment."""

    paths: tuple[str, ...]
    labels: tuple[int, ...]


class Images(Environment):
    """Images that are decoded when they are asked for."""

    is_in_memory = False

    def __init__(self, listing: Listing, device: torch.device) -> None:
        self._paths, self._device = listing.paths, device
        self.y = torch.tensor(listing.labels, device=device)

    def inputs(self, rows: Tensor, augmentation: int | None = None) -> Tensor:
        """Read images as (b, 3, 224, 224), normalized as for ImageNet.

        The changes of an image depend on ``augmentation`` and its position in ``rows`` alone.
        A file that is no image raises ``ValueError``.
        """
        paths = [self._paths[row] for row in rows.tolist()]
        seeds = [None if augmentation is None else (augmentation, i) for i in range(len(paths))]
        pixels = np.empty((len(paths), SIZE, SIZE, 3), np.uint8)
        # Pillow lets other threads run while it decodes.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for i, image in enumerate(pool.map(_read_pixels, paths, seeds)):
                pixels[i] = image
        x = torch.from_numpy(pixels).to(self._device).permute(0, 3, 1, 2)
        mean, deviation = (
            torch.tensor(values, device=self._device)[:, None, None]
            for values in (_MEAN, _DEVIATION)
        )
        return ((x / 255 - mean) / deviation).contiguous()


class ImageFolders(RegisteredDataset):
    """Base of the datasets that are a folder of images; nothing is read until they are used."""

    folder: ClassVar[str]  # in the folder of all data
    input_shape = (3, SIZE, SIZE)
    group = "images"
    checkpoint_freq = 300

    def __init__(self, data: Path | None = None) -> None:
        super().__init__(data)
        self.root = (data or Path(os.environ.get("REGRAFT_DATA") or ".")) / self.folder

    def environments(self, seed: int, device: torch.device) -> list[Images]:
        """List the images of every environment; nothing is drawn, so ``seed`` does not matter."""
        return [Images(listing, device) for listing in self.listings]

    def check(self) -> None:
        """Look for the folders, the images and what reads them."""
        _ = self.listings
        require("PIL.Image", "images")
        require("timm", "images")

    @cached_property
    def listings(self) -> list[Listing]:
        """The images of every environment."""
        if not self.root.is_dir():
            raise FileNotFoundError(
                f"there is no folder {self.root}: name the folder that holds {self.folder} with "
                "--data or REGRAFT_DATA."
            )
        environments = list_entries(self.root).folders
        self._check_count("environments", self.root, environments, len(self.env_names))
        classes = list_entries(self.root / environments[0]).folders
        self._check_count("classes", self.root / environments[0], classes, self.n_classes)
        for environment in environments[1:]:
            odd = sorted({*list_entries(self.root / environment).folders} ^ {*classes})
            if odd:
                raise ValueError(
                    f"{self.root / environments[0]} and {self.root / environment} differ in the "
                    f"classes {', '.join(odd)}: give all environments the same class "
                    "folders, empty where there are no images."
                )
        return [_list_images(self.root / environment, classes) for environment in environments]

    def _check_count(self, kind: str, folder: Path, found: Sequence[str], expected: int) -> None:
        if len(found) != expected:
            shown = ", ".join(found[:12]) or "none"
            raise ValueError(
                f"{self.name} has {expected} {kind} but {folder} has {len(found)} folders "
                f"({shown}{', …' if len(found) > 12 else ''}): make it one folder for each."
            )


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
        images = list_entries(environment / name, of_class=True).images
        paths += [str(environment / name / image) for image in images]
        labels += [label] * len(images)
    if not paths:
        raise ValueError(f"{environment} holds no images: fill its class folders.")
    return Listing(tuple(paths), tuple(labels))


def _read_pixels(path: str, seed: tuple[int, int] | None) -> NDArray[np.uint8]:
    """Read an image as (224, 224, 3), changed at random if there is a ``seed``."""
    image: Any = use_image(path, lambda file: file.convert("RGB"))
    if seed is None:
        return np.asarray(resize(image))
    change = draw_change(np.random.default_rng(seed), *image.size)
    return np.asarray(change_image(image, change))
