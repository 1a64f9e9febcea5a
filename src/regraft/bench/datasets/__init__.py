"""The protocol's datasets: registered by name, or files of features named by their stem."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from regraft.bench.datasets.base import REGISTERED, Dataset, Environment, RegisteredDataset, dataset
from regraft.bench.datasets.features import FeatureBank, find_bank, list_banks
from regraft.bench.datasets.folders import NamedFolder, find_folder, list_folders

__all__ = ["Dataset", "Environment", "RegisteredDataset", "dataset", "datasets", "open_dataset"]


@cache
def _import_all() -> None:
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")


def datasets() -> Mapping[str, type[RegisteredDataset]]:
    """Return the registered datasets by name, with those that plugins have added."""
    _import_all()
    return dict(sorted(REGISTERED.items()))


def open_dataset(name: str, data: Path | None = None) -> Dataset:
    """Open the dataset ``name``, with its files in the folder ``data``.

    A name that is not registered is the stem of a file of features (.npz, .csv or .parquet) in
    ``data``, or a folder of images there, in the layout domain/class/file. Raises ``ValueError``
    with one sentence if there is none of them, ``FileNotFoundError`` if there is no such folder.
    """
    known = datasets()
    if name in known:
        return known[name](data)
    path = find_bank(name, data)
    if path is None:
        folder = find_folder(name, data)
        if folder is not None:
            return NamedFolder(folder)
        if data is not None and not data.is_dir():
            raise FileNotFoundError(
                f"there is no folder {data}: name that of the data with --data."
            )
        choices = ", ".join(dict.fromkeys([*known, *list_banks(data), *list_folders(data)]))
        raise ValueError(
            f"dataset is {name!r}: choose from {choices}, or name a file of features, or a folder "
            "domain/class/image, in --data."
        )
    return FeatureBank(path)
