"""Spawrious: four breeds of dogs on backgrounds that go with the breed, or change with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import torch

from regraft.bench.datasets.base import data_folder, dataset
from regraft.bench.datasets.folders import Images, ListedImages, Listing
from regraft.data.image_folders import list_entries

_BREEDS = ("bulldog", "corgi", "dachshund", "labrador")
_ORDER = ("bulldog", "dachshund", "labrador", "corgi")  # in which backgrounds are named below
_TOTAL = 3168  # images of a breed on a background
_SHARES = (0.97, 0.87)  # of a breed's images on its own background, in the two training groups
_FOLDER = "spawrious224"  # in the archive, with folders 0 and 1 of all images


class Spawrious(ListedImages):
    """Base of the six: a test environment and two groups to train on.

    Of each folder the first images by name are taken, where DomainBed takes the first that the
    system lists.
    """

    env_names = ("Test", "SC_group_1", "SC_group_2")
    n_classes = len(_BREEDS)
    trained: ClassVar[Sequence[str]]  # backgrounds in training, in the order of the breeds
    tested: ClassVar[Sequence[str]]
    filler: ClassVar[str] = ""  # background that all breeds share, of the one-to-one kind

    @property
    def root(self) -> Path:
        """The folder with the folders 0 and 1: in the folder of all data, or that folder itself."""
        data = data_folder(self.data)
        return data / _FOLDER if (data / _FOLDER).is_dir() else data

    def environments(self, seed: int, device: torch.device) -> list[Images]:
        """List the images; the test environment is never changed at random."""
        test, *groups = self.listings
        return [Images(test, device, "never"), *(Images(each, device, "resize") for each in groups)]

    @cached_property
    def listings(self) -> list[Listing]:
        """The images of every environment."""
        plans = [[*self._tested(0), *self._tested(1)], list(self._group(0)), list(self._group(1))]
        return [self._list(plan) for plan in plans]

    def _group(self, i: int) -> Iterator[tuple[str, str, str, int | None]]:
        """Yield the folder, background and breed of each part of group ``i``, and how many."""
        own = int(_SHARES[i] * _TOTAL) if self.filler else _TOTAL
        for place, breed in enumerate(_ORDER):
            yield self._folder(i), self.trained[self._swap(place, i)], breed, own
        for breed in _ORDER if self.filler else ():
            yield self._folder(i), self.filler, breed, _TOTAL - own

    def _tested(self, i: int) -> Iterator[tuple[str, str, str, int | None]]:
        for place, breed in enumerate(_ORDER):
            yield self._folder(i), self.tested[self._swap(place, i)], breed, None

    def _folder(self, i: int) -> str:
        return str(i) if self.filler else "0"

    def _swap(self, place: int, i: int) -> int:
        """Exchange backgrounds within both pairs of breeds in the second group, many-to-many."""
        return place if self.filler else place ^ i

    def _list(self, plan: Sequence[tuple[str, str, str, int | None]]) -> Listing:
        paths: list[str] = []
        labels: list[int] = []
        for folder, background, breed, most in plan:
            place = self.root / folder / background / breed
            names = list_entries(place).images[:most] if place.is_dir() else []
            if not names:
                raise FileNotFoundError(
                    f"there are no images in {place}: name the folder that holds {_FOLDER} with "
                    "--data or REGRAFT_DATA."
                )
            paths += [str(place / name) for name in names]
            labels += [_BREEDS.index(breed)] * len(names)
        return Listing(tuple(paths), tuple(labels))


def _register(name: str, trained: str, tested: str, filler: str = "") -> None:
    facts = {"trained": trained.split(), "tested": tested.split(), "filler": filler}
    dataset(name)(type(name, (Spawrious,), facts))


_register("SpawriousO2O_easy", "desert jungle dirt snow", "dirt snow desert jungle", "beach")
_register("SpawriousO2O_medium", "mountain beach dirt jungle", "jungle dirt beach snow", "desert")
_register(
    "SpawriousO2O_hard", "jungle mountain snow desert", "mountain snow desert jungle", "beach"
)
_register("SpawriousM2M_easy", "desert mountain dirt jungle", "dirt jungle mountain desert")
_register("SpawriousM2M_medium", "beach snow mountain desert", "desert mountain beach snow")
_register("SpawriousM2M_hard", "dirt jungle snow beach", "snow beach dirt jungle")
