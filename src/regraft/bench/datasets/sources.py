"""Where the protocol's datasets come from, and how they get into the folder of all data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from regraft.bench.datasets.mnist import download_mnist
from regraft.support.archives import unpack
from regraft.support.data_files import read_toml
from regraft.support.digests import digest_file
from regraft.support.downloads import download, verify

_DIGITS = ("MNIST", "ColoredMNIST", "RotatedMNIST")
_SPAWRIOUS = "Spawrious"  # one archive for six datasets


@dataclass(frozen=True)
class Source:
    """Where people get a dataset."""

    folder: str  # in the folder of all data
    page: str = ""  # empty for what is downloaded by itself
    arranged: str = ""  # how, where the archive is not in the layout that is read


def list_sources() -> dict[str, Source]:
    """Return the sources by name of the dataset."""
    known = read_toml(__package__, "sources.toml")
    digits = {name: Source("mnist") for name in _DIGITS}
    return digits | {name: Source(**facts) for name, facts in known.items()}


def find_source(dataset: str) -> Source:
    """Return where ``dataset`` comes from, or raise ``ValueError`` with one sentence."""
    known = list_sources()
    name = _SPAWRIOUS if dataset.startswith(_SPAWRIOUS) else dataset
    if name not in known:
        raise ValueError(f"dataset is {dataset!r}: choose from {', '.join(known)}.")
    return known[name]


def get_dataset(
    dataset: str,
    data: Path,
    origin: str | None = None,
    checksum: str | None = None,
    on_bytes: Callable[[int, int | None], None] | None = None,
) -> tuple[Path, str | None]:
    """Bring ``dataset`` into the folder ``data``; its folder there, and its archive's sha256.

    ``origin`` is the address or the file of its archive, which all but MNIST need. Raises
    ``ValueError`` or ``FileNotFoundError`` with one sentence.
    """
    source = find_source(dataset)
    target = data / source.folder
    if not source.page:
        download_mnist(target)
        return target, None
    if source.arranged:
        raise ValueError(
            f"{dataset} cannot be unpacked as it is: get it from {source.page} and arrange it in "
            f"{target} {source.arranged}."
        )
    if origin is None:
        raise ValueError(
            f"no checksum of {dataset} is published: get its archive or address from "
            f"{source.page}, and pass that to regraft download {dataset} --from."
        )
    if target.exists():
        raise ValueError(f"{target} exists already: remove it to get {dataset} again.")
    if not origin.startswith(("http://", "https://")):
        archive = Path(origin)
        if not archive.is_file():
            raise FileNotFoundError(f"there is no file {archive}: pass an archive or an address.")
        verify(archive, checksum)
        unpack(archive, target)
        return target, digest_file(archive)
    name = Path(urlsplit(origin).path).name or dataset
    archive = data / f".{dataset}-{name}"
    download(origin, archive, checksum, on_bytes)
    digest = digest_file(archive)
    unpack(archive, target)
    archive.unlink()
    return target, digest
