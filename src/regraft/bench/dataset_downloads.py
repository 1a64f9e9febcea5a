"""How the protocol's datasets get into the folder of all data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from regraft.bench.dataset_sources import SPAWRIOUS, find_source
from regraft.bench.datasets import datasets
from regraft.bench.datasets.mnist import download_mnist
from regraft.support.archives import BadArchive, unpack
from regraft.support.digests import digest_file
from regraft.support.downloads import download, is_verified, verify
from regraft.support.extras import MissingExtra


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
        _unpack(archive, dataset, target)
        return target, digest_file(archive)
    name = Path(urlsplit(origin).path).name or dataset
    archive = data / f".{dataset}-{name}"
    if not is_verified(archive, checksum):  # as where it could not be unpacked the last time
        download(origin, archive, checksum, on_bytes)
    digest = digest_file(archive)
    _unpack_download(archive, dataset, target)
    return target, digest


def _unpack(archive: Path, dataset: str, target: Path) -> None:
    """Unpack an archive if it holds the dataset, or raise ``ValueError`` with one sentence."""
    names = [dataset]
    if dataset == SPAWRIOUS:
        names = [name for name in datasets() if name.startswith(SPAWRIOUS)]

    def check(folder: Path) -> None:
        for name in names:
            try:
                datasets()[name](folder).check()
            except MissingExtra:  # which is needed to read it, not to have it
                return
            except (ValueError, FileNotFoundError) as error:
                found = str(error).replace(str(folder / target.name), "the archive")
                raise ValueError(
                    f"{archive} is not {name} as it is read here "
                    f"({found.rpartition(': ')[0] or found}): get another one, or unpack it "
                    f"yourself and arrange it in {target}."
                ) from None

    unpack(archive, target, check)


def _unpack_download(archive: Path, dataset: str, target: Path) -> None:
    """Unpack what was downloaded and remove it; it is kept if it is not at fault."""
    try:
        _unpack(archive, dataset, target)
    except BadArchive as error:
        archive.unlink()
        raise ValueError(f"{str(error).rstrip('.')} (it was removed).") from None
    except (ValueError, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise ValueError(f"{reason} ({archive} is kept, to be passed with --from).") from None
    archive.unlink()
