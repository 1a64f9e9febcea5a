"""Blocks of inputs on their way through an encoder: here, or on workers of a Ray cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from regraft.data.banks import check_finite
from regraft.data.input_blocks import Block, InputSource
from regraft.encoders.base import Encoder
from regraft.support.ray_clusters import connect, count_workers, fetch, import_ray

T = TypeVar("T")
Encoded = Block[NDArray[np.float32]]  # the content is the features (b, n_features)
_IN_HAND = 2  # blocks given to a worker, so that it never waits for the next one
_TRIES = 20  # of a block whose worker dies


@dataclass(frozen=True)
class RayWorkers:
    """Workers of the Ray cluster at ``address``, or of one that is started on this machine.

    There are as many as the cluster has cores, or GPUs if the encoder needs one, or fewer if
    ``number`` says so.
    """

    address: str | None = None
    number: int | None = None


def encode_blocks(
    source: InputSource[T],
    encoder: Encoder[T],
    folder: Path,
    first: int,
    workers: RayWorkers | None = None,
) -> Generator[Encoded]:
    """Yield the features of all inputs but the ``first`` ones, block by block, in their order."""
    if workers is None:
        return (_encode(encoder, block) for block in source.blocks(folder, first))
    return _encode_on_ray(source, encoder, folder, first, workers)


def _encode(encoder: Encoder[T], block: Block[T]) -> Encoded:
    expected = len(block.inputs), encoder.n_features
    features = encoder.encode(block.content) if block.inputs else np.empty(expected, np.float32)
    if features.shape != expected:
        raise ValueError(
            f"the encoder gave features of shape {features.shape} instead of {expected}: repair it."
        )
    if block.inputs:
        check_finite(features, f"{block.inputs[0].key} and the inputs after it")
    return Block(features, block.inputs, block.labels, block.domains, block.skipped)


class _EncodingActor(Generic[T]):
    """Reads and encodes blocks on a worker; it gets the encoder as it is on the driver.

    The encoder comes with each block, as a reference, and is fetched once: a successor of a worker
    that died gets it with its first block. Ray warns of actors that are made with references.
    """

    _made: tuple[InputSource[T], Encoder[T]] | None = None

    def encode(self, given: list[Any], part: Any) -> Encoded:
        if self._made is None:
            source, encoder = fetch(given)
            self._made = source, encoder
        source, encoder = self._made
        return _encode(encoder, source.read(part))


def _encode_on_ray(
    source: InputSource[T], encoder: Encoder[T], folder: Path, first: int, workers: RayWorkers
) -> Generator[Encoded]:
    """Yield blocks in their order; that of a worker that dies is encoded again by its successor."""
    ray = import_ray()
    with connect(workers.address):
        gpus = int(encoder.device == "cuda")
        count = count_workers(workers.number, gpu=bool(gpus))
        worker = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=_TRIES)(
            _EncodingActor
        )
        given = [ray.put(source), ray.put(encoder)]
        actors = [worker.remote() for _ in range(count)]
        coming: deque[Any] = deque()
        for number, part in enumerate(source.parts(folder, first)):
            coming.append(actors[number % len(actors)].encode.remote(given, part))
            if len(coming) >= _IN_HAND * len(actors):
                yield _await(ray, source, coming.popleft())
        while coming:
            yield _await(ray, source, coming.popleft())


def _await(ray: Any, source: InputSource[T], reference: Any) -> Encoded:
    try:
        block: Encoded = fetch(reference)
    except ray.exceptions.RayError as error:
        raise RuntimeError(
            f"a Ray worker died {_TRIES} times ({str(error).splitlines()[0]}): run the same "
            "command again, with fewer --workers if memory is short."
        ) from None
    source.check(block)
    return block
