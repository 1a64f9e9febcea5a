"""Camelyon17 and FMoW of WILDS, listed by its package and read by ours."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any, ClassVar

import torch

from regraft.bench.datasets.base import data_folder, dataset
from regraft.bench.datasets.folders import ListedImages, Listing
from regraft.support.extras import require


class WildsDataset(ListedImages):
    """Base of both: an environment for each value of a field."""

    style = "resize and crop"
    module: ClassVar[str]
    maker: ClassVar[str]  # of the package's datasets
    folder: ClassVar[str]
    field: ClassVar[str]

    @cached_property
    def listings(self) -> list[Listing]:
        """The images of every environment."""
        root = data_folder(self.data)
        if not list((root / self.folder).glob("RELEASE_v*.txt")):
            raise FileNotFoundError(
                f"there is no {self.name} in {root / self.folder}: see regraft download "
                f"{self.name}, and name the folder that holds {self.folder} with --data or "
                "REGRAFT_DATA."
            )
        make = getattr(require(f"wilds.datasets.{self.module}", "wilds"), self.maker)
        found = make(root_dir=str(root))
        values = found.metadata_array[:, found.metadata_fields.index(self.field)]
        numbers = sorted(set(values.tolist()))
        if len(numbers) != len(self.env_names):
            raise ValueError(
                f"{root / self.folder} has {len(numbers)} values of {self.field}, where "
                f"{self.name} has {len(self.env_names)}: get it again."
            )
        paths = self.paths(found)
        rows = [torch.where(values == number)[0].tolist() for number in numbers]
        return [
            Listing(tuple(paths[i] for i in each), tuple(found.y_array[each].tolist()))
            for each in rows
        ]

    def paths(self, found: Any) -> list[str]:
        """Return the files of all images of the package's dataset."""
        raise NotImplementedError


@dataset("WILDSCamelyon")
class Camelyon(WildsDataset):
    """Patches of tissue with and without a tumour, from five hospitals."""

    env_names = tuple(f"hospital_{i}" for i in range(5))
    n_classes = 2
    module, maker = "camelyon17_dataset", "Camelyon17Dataset"
    folder, field = "camelyon17_v1.0", "hospital"

    def paths(self, found: Any) -> list[str]:
        """Return the files, which the package names by patient, node and place."""
        return [os.path.join(found.data_dir, name) for name in found._input_array]


@dataset("WILDSFMoW")
class FMoW(WildsDataset):
    """Satellite images of 62 uses of land, from six regions."""

    env_names = tuple(f"region_{i}" for i in range(6))
    n_classes = 62
    module, maker = "fmow_dataset", "FMoWDataset"
    folder, field = "fmow_v1.1", "region"

    def paths(self, found: Any) -> list[str]:
        """Return the files, which are numbered."""
        return [os.path.join(found.data_dir, "images", f"rgb_img_{i}.png") for i in found.full_idxs]
