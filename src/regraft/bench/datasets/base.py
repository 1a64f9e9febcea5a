"""The base of the protocol's datasets: named environments, drawn anew for every job."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from regraft.bench.algorithms import Entry, find_algorithm
from regraft.bench.protocol.spaces import Group, Space


class Environment(ABC):
    """The rows of one environment, on one device."""

    y: Tensor  # (n,) int64, on the device
    is_in_memory: bool = True  # whether inputs are made on the device without reading files
    rows_at_once: int | None = None  # in an evaluation; None takes what suits a network
    cut_off: int = 0  # inputs read so far whose files end too early
    units: tuple[Tensor, Tensor] | None = None  # mean and scale (d,) taken off the inputs, if any

    def __len__(self) -> int:
        return len(self.y)

    @abstractmethod
    def inputs(self, rows: Tensor, augmentation: int | None = None) -> Tensor:
        """Return the inputs (b, ...) of ``rows`` (b,), float32 on the device.

        With a seed as ``augmentation`` they are changed at random as for training, where the
        dataset does so.
        """


class Dataset(ABC):
    """Base of all datasets; making one reads no more than it must."""

    name: str
    env_names: tuple[str, ...]
    input_shape: tuple[int, ...]
    n_classes: int
    group: ClassVar[Group]
    steps: int = 5001
    checkpoint_freq: int = 100
    own_space: Space = {}  # hyperparameters that differ from their group's
    fingerprint: str = ""  # of the content, where the name does not say it
    origin: str = ""  # of a plugin's: its file and checksum, or its package and version

    @abstractmethod
    def environments(self, seed: int, device: torch.device) -> Sequence[Environment]:
        """Return the environments as the job with this seed sees them."""

    @abstractmethod
    def check(self) -> None:
        """Raise an error with one sentence if the data cannot be read."""

    def find_algorithm(self, name: str) -> Entry:
        """Return what an algorithm's name means on this dataset, or raise ``ValueError``."""
        return find_algorithm(name)

    def prepare(
        self, environments: Sequence[Environment], rows: Mapping[int, Tensor]
    ) -> Sequence[Environment]:
        """Change the environments by what can be learnt from the training ``rows`` of some."""
        return environments


def data_folder(data: Path | None) -> Path:
    """Return the folder of all data: ``data``, or what ``REGRAFT_DATA`` names, or this one."""
    return data or Path(os.environ.get("REGRAFT_DATA") or ".")


class RegisteredDataset(Dataset):
    """Base of the datasets that have a name; their class knows the names of the environments."""

    def __init__(self, data: Path | None = None) -> None:
        """Look for data in the folder ``data``, or in the usual places if None."""
        self.data = data


REGISTERED: dict[str, type[RegisteredDataset]] = {}  # of the modules imported so far


def dataset(name: str) -> Callable[[type[RegisteredDataset]], type[RegisteredDataset]]:
    """Register a class under ``name``."""

    def register(make: type[RegisteredDataset]) -> type[RegisteredDataset]:
        if name in REGISTERED:
            raise ValueError(f"there are two datasets called {name!r}: rename one of them.")
        make.name = name
        REGISTERED[name] = make
        return make

    return register
