"""Checksums of a bank's description and sizes of its files, compared when it is opened."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regraft.support.digests import digest_file, digest_parts
from regraft.support.json_files import digest_json

_SEAL, _FILES = "sha256", "files"
_HEAD_BYTES = 512  # of a file of arrays, before the features


def seal_bank(description: Mapping[str, Any], arrays: Path, inputs: Path) -> dict[str, Any]:
    """Return what a description is to hold beside its own content, to be checked later."""
    facts = {
        "features.safetensors": {"bytes": arrays.stat().st_size, "head": _digest_head(arrays)},
        "inputs.jsonl": {"bytes": inputs.stat().st_size, "sha256": digest_file(inputs)},
    }
    return {_FILES: facts, _SEAL: _digest({**description, _FILES: facts})}


def check_bank_seal(folder: Path, description: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` unless the description, and the sizes of the files, are as written."""
    if _SEAL not in description:
        warnings.warn(
            f"{folder} was made without a checksum of its description, so that damage to it would "
            "not be noticed: make the bank again.",
            stacklevel=3,
        )
        return
    if _digest(description) != description[_SEAL]:
        raise ValueError(f"{folder / 'bank.json'} is damaged: delete the bank and make it again.")
    for name, facts in description[_FILES].items():
        path = folder / name
        if not path.is_file():
            continue
        size = path.stat().st_size
        if size != facts["bytes"] or ("head" in facts and not is_sealed(path, description)):
            raise ValueError(
                f"{path} is damaged or cut off (it has {size:,} bytes, and had "
                f"{facts['bytes']:,}): delete the bank and make it again."
            )


def is_sealed(path: Path, description: Mapping[str, Any]) -> bool:
    """Return whether a file of a bank is as its description says; True if that says nothing."""
    facts = description.get(_FILES, {}).get(path.name, {})
    digests = {"head": _digest_head, "sha256": digest_file}
    return all(digests[name](path) == facts[name] for name in digests if name in facts)


def _digest_head(path: Path) -> str:
    """Compute the checksum of what comes before the arrays, which have one of their own."""
    with path.open("rb") as file:
        return digest_parts([file.read(_HEAD_BYTES)])


def _digest(description: Mapping[str, Any]) -> str:
    return digest_json({name: value for name, value in description.items() if name != _SEAL})
