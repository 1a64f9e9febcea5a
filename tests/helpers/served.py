"""A real server of ``regraft serve`` on the loopback interface."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.commands import apart


@dataclass
class Served:
    """A server that runs, and after that how it ended."""

    url: str
    process: "subprocess.Popen[str]"
    log: Path

    def stop(self, sign: int = signal.SIGTERM) -> int:
        """Send a signal, and wait for the end."""
        if self.process.poll() is None:
            self.process.send_signal(sign)
        return self.process.wait(timeout=30)


@contextmanager
def serving(folder: Path, model: Path, *options: object) -> Iterator[Served]:
    """Start a server; its log is written in ``folder``."""
    log = folder / "serve.log"
    settings: dict[str, Any] = apart("serve", model, "--port", 0, "--json", *options)
    with (
        log.open("w") as errors,
        subprocess.Popen(**settings, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        served = Served(json.loads(line)["url"] if line else "", process, log)
        try:
            assert line, log.read_text()
            yield served
        finally:
            served.stop()
