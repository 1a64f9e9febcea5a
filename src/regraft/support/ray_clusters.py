"""Connections to Ray clusters."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from regraft.support.extras import require

_RAY_KEYWORDS = ("auto", "local")
_CONNECT_SECONDS = 10.0  # seconds


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

    Without an address Ray is started on this machine.
    """
    ray = require("ray", "ray")
    if ray.is_initialized():
        yield
        return
    if address is not None:
        check_address(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(
        address=address or "local",
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    try:
        yield
    finally:
        ray.shutdown()
