"""The weights of encoders: read from files, from model hubs, identified by a checksum."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from regraft.support.digests import digest_file, digest_parts
from regraft.support.extras import quiet_loggers
from regraft.support.plurals import count
from regraft.support.reading import check_fits

_SHOWN = 3
_CHATTERING = ("huggingface_hub", "sentence_transformers")

T = TypeVar("T")


def fingerprint(network: nn.Module, without: str = "") -> str:
    """Compute the checksum of the state dict, but for layers of the name ``without`` anywhere."""

    def parts() -> Iterator[bytes | memoryview]:
        for name, tensor in sorted(network.state_dict().items()):
            if without not in name.split("."):
                yield f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode()
                flat = tensor.detach().cpu().contiguous().reshape(-1)
                yield flat.view(torch.uint8).numpy().data

    return digest_parts(parts())


def check_digest(path: Path, sha256: str, package: str) -> None:
    """Raise ``ValueError`` unless a file of an installed package is the one that was reviewed."""
    if digest_file(path) != sha256:
        raise ValueError(
            f"{path} is not the file that this version of regraft was made with: install "
            f"{package} again."
        )


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file; raise ``ValueError`` if it is none."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}: name the weights with --weights.")
    try:
        check_fits(path.stat().st_size, str(path))
        tensors: dict[str, Tensor] = safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, KeyError):
        raise ValueError(
            f"{path} is damaged or no safetensors file: save a state dict to it with "
            "safetensors.torch.save_file."
        ) from None
    return tensors


def put_weights(
    network: nn.Module,
    state: Mapping[str, Tensor],
    source: str,
    ignored: Collection[str] = (),
) -> None:
    """Fill the whole ``network`` with ``state``, whose ``ignored`` layers are left out.

    Raises ``ValueError`` with one sentence, which names ``source``, if anything is missing, too
    much or of another shape.
    """
    prefixes = tuple(f"{layer}." for layer in ignored)
    kept = {name: tensor for name, tensor in state.items() if not name.startswith(prefixes)}
    expected = {name: tensor.shape for name, tensor in network.state_dict().items()}
    found = {name: tensor.shape for name, tensor in kept.items()}
    odd = sorted(name for name in {*expected, *found} if expected.get(name) != found.get(name))
    if odd:
        shown = ", ".join(odd[:_SHOWN]) + (", …" if len(odd) > _SHOWN else "")
        raise ValueError(
            f"{source} does not hold the weights of this network, which has "
            f"{count(len(expected), 'tensors')} ({len(odd)} missing, unknown or of another shape: "
            f"{shown}): pass those of the same architecture."
        )
    network.load_state_dict(kept)


@contextmanager
def loading(name: str, way_out: str) -> Iterator[None]:
    """Turn errors inside into ``FileNotFoundError`` or ``ValueError`` with one sentence."""
    try:
        # Warnings of failed tries to download are kept back; the last one is an error.
        with quiet_loggers(_CHATTERING, logging.ERROR):
            yield
    except Exception as error:  # of whichever library meets the problem
        reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        if isinstance(error, OSError):  # those of downloads too
            raise FileNotFoundError(
                f"the network {name} can be neither found nor downloaded ({reason}): {way_out}."
            ) from None
        raise ValueError(f"the network {name} does not load ({reason}): {way_out}.") from None


def load_pretrained(name: str, load: Callable[[], T], way_out: str) -> T:
    """Load the model ``name`` by calling ``load``, with the errors of ``loading``."""
    # Initial weights are drawn, only to be replaced.
    with loading(name, way_out), torch.random.fork_rng(devices=[]):
        return load()
