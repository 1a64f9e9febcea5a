"""Tensors that are expensive to make, kept on disk and never believed unread."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from regraft.support.digests import digest_parts
from regraft.support.files import write_bytes
from regraft.support.reading import read_file

KEY = "key"  # under which the metadata of a file has what its tensors depend on
_LENGTH_BYTES = 8  # a safetensors file starts with the length of its header


def write_cache(path: Path, key: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write ``tensors`` to the file ``path``, to be read back by whoever has the same ``key``.

    ``key`` holds all that the tensors depend on, in JSON's types. The file appears complete or
    not at all, and its folder is made.
    """
    # Clones, because tensors that share memory cannot be written.
    kept = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    written_key = _canonical(key)
    metadata = {KEY: written_key, "sha256": _digest(written_key, kept)}
    write_bytes(path, safetensors.torch.save(kept, metadata))


def read_cache(path: Path, key: Mapping[str, Any]) -> dict[str, Tensor] | None:
    """Read the tensors that ``write_cache`` wrote to ``path`` for ``key``, on the CPU.

    None if there is no such file, if it was made for another key, or, with a warning, if a single
    byte of it is not as it was written.
    """
    try:
        raw = read_file(path)
    except FileNotFoundError:
        return None
    try:
        written_key, tensors = _parse(raw)
    except (safetensors.SafetensorError, KeyError, ValueError):
        warnings.warn(f"{path} is damaged and is made again.", stacklevel=2)
        return None
    return tensors if written_key == _canonical(key) else None


def _parse(raw: bytes) -> tuple[str, dict[str, Tensor]]:
    """Return the key and the tensors of a file, or raise what ``read_cache`` expects."""
    tensors: dict[str, Tensor] = safetensors.torch.load(raw)  # KeyError: a type torch has not
    end = _LENGTH_BYTES + int.from_bytes(raw[:_LENGTH_BYTES], "little")
    header = raw[_LENGTH_BYTES:end]
    metadata = json.loads(header).get("__metadata__") or {}
    key = metadata.get(KEY, "")
    # JSON ignores what kind of blanks pad the header; the writer uses spaces.
    if not header.rstrip(b" ").endswith(b"}") or metadata.get("sha256") != _digest(key, tensors):
        raise ValueError("the content does not match its checksum")
    return key, tensors


def _digest(key: str, tensors: Mapping[str, Tensor]) -> str:
    """Compute the checksum of the key and the tensors' names, types, shapes and bytes."""
    ordered = sorted(tensors.items())
    description = [[name, str(tensor.dtype), list(tensor.shape)] for name, tensor in ordered]
    tensor_bytes = (tensor.reshape(-1).view(torch.uint8).numpy().data for _, tensor in ordered)
    return digest_parts(chain([_canonical([key, description]).encode()], tensor_bytes))


def _canonical(document: Any) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))
