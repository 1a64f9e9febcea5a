"""Where people get the protocol's datasets; imports nothing that computes."""

from __future__ import annotations

from dataclasses import dataclass

from regraft.support.data_files import read_toml

_DIGITS = ("MNIST", "ColoredMNIST", "RotatedMNIST")
_DRAWN = ("Debug28", "Debug224")
SPAWRIOUS = "Spawrious"  # one archive for six datasets


@dataclass(frozen=True)
class Source:
    """Where people get a dataset."""

    folder: str  # in the folder of all data
    page: str = ""  # empty for what is downloaded by itself
    arranged: str = ""  # how, where the archive is not in the layout that is read


def list_sources() -> dict[str, Source]:
    """Return the sources by name of the dataset."""
    known = read_toml(__package__, "dataset_sources.toml")
    digits = {name: Source("mnist") for name in _DIGITS}
    return digits | {name: Source(**facts) for name, facts in known.items()}


def find_source(dataset: str) -> Source:
    """Return where ``dataset`` comes from, or raise ``ValueError`` with one sentence."""
    known = list_sources()
    if dataset in _DRAWN:
        raise ValueError(f"{dataset} is drawn at random: there is nothing to download.")
    name = SPAWRIOUS if dataset.startswith(SPAWRIOUS) else dataset
    if name not in known:
        raise ValueError(f"dataset is {dataset!r}: choose from {', '.join(known)}.")
    return known[name]
