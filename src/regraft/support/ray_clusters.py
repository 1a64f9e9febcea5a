"""Connections to Ray clusters."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from regraft.support.extras import require
from regraft.support.last_words import leaving_last_words

_RAY_KEYWORDS = ("auto", "local")
# Ray tells of workers that die on standard output, where results go, and of errors that are
# handled already on standard error.
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
}
_CONNECT_SECONDS = 10.0  # seconds
# Ray ends this process at once, with exit code 1, when its node process (the raylet) is gone.
_LAST_WORDS = (
    "regraft: this command was ended from outside: run it again, and if the memory was full, free "
    "some or pass fewer --workers."
)
_LATE = re.compile("(?i)timed out|time-?out")  # of Ray's messages


def import_ray() -> ModuleType:
    """Import Ray, so that it does not speak in our place."""
    for name, value in _SETTINGS.items():  # which it reads when it is imported
        os.environ.setdefault(name, value)
    return require("ray", "ray")


def check_address(address: str) -> None:
    """Raise ``ValueError`` if nothing listens at ``address``; Ray itself would wait for minutes."""
    if address in _RAY_KEYWORDS:
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, ValueError):
        raise ValueError(
            f"no Ray cluster answers at {address!r}: pass its host:port with --address, or leave "
            "it out to start Ray on this machine."
        ) from None


@contextmanager
def connect(address: str | None) -> Iterator[None]:
    """Connect to Ray inside, and disconnect afterwards unless it was connected before.

    Without an address Ray is started on this machine. Raises ``ValueError`` with one sentence if
    that fails.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield
        return
    if address is not None:
        check_address(address)
    try:
        ray.init(
            address=address or "local",
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except Exception as error:  # Ray raises that class itself
        ray.shutdown()  # what was started by then
        raise ValueError(_explain(error, address)) from error
    with leaving_last_words(_LAST_WORDS):
        try:
            yield
        finally:
            ray.shutdown()


def _explain(error: Exception, address: str | None) -> str:
    """Return one sentence about why Ray could not be used."""
    reason = " ".join(str(error).split()).partition(". ")[0].rstrip(".") or type(error).__name__
    if address is not None:
        return (
            f"Ray does not connect to {address!r} ({reason}): check that the cluster runs, with "
            "the versions of Ray and Python that are here, or use --engine local."
        )
    what = "in time" if _LATE.search(reason) else f"({reason})"
    return (
        f"Ray did not start {what}: try again on a quieter machine, name a cluster with "
        "--address, or use --engine local."
    )


def count_workers(wanted: int | None, *, gpu: bool = False) -> int:
    """Return how many workers to start: all that the cluster has room for, or fewer if wanted.

    More than that would wait for a core, or a GPU, for ever.
    """
    room = int(import_ray().cluster_resources().get("GPU" if gpu else "CPU", 0))
    if gpu and room < 1:
        raise ValueError(
            "the Ray cluster has no GPU: pass --device cpu, or name another cluster with --address."
        )
    return max(min(wanted or room, room), 1)


def fetch(references: Any) -> Any:
    """Return what workers made; raise what one of them raised."""
    ray = import_ray()
    try:
        return ray.get(references)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
