"""``regraft serve``: predictions over HTTP."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from regraft.cli.command import command
from regraft.cli.options import path_argument
from regraft.cli.session import Session
from regraft.support.extras import require

_MAX_CONNECTIONS = 256  # of a worker; further ones are told to come back
_STOP_SECONDS = 10  # for requests that are being answered


@command(traced=False, loading=None)
def serve(
    session: Session,
    model: Annotated[
        Path, path_argument("Folder of a saved model, or a file made by export --to json.")
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 for all networks.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for any that is free.")] = 8000,
    max_rows: Annotated[int, typer.Option(help="Most rows of a request.", min=1)] = 10_000,
    max_bytes: Annotated[int, typer.Option(help="Most bytes of a request.", min=1)] = 4 * 2**20,
    timeout: Annotated[
        float, typer.Option(help="Seconds in which a request has to arrive.", min=0.1)
    ] = 10.0,
    workers: Annotated[int, typer.Option(help="Processes that answer requests.", min=1)] = 1,
    interval: Annotated[
        bool,
        typer.Option(
            "--interval", help="Also answer requests for intervals, which takes more memory."
        ),
    ] = False,
) -> None:
    """Answer requests for predictions over HTTP: /predict, /health and /card."""
    for package in ("uvicorn", "starlette"):
        require(package, "serve")
    # Rows are few, and threads of several libraries would fight for the cores.
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    with TemporaryDirectory(prefix="regraft-serve-") as folder:
        with session.working(f"reading {model}"):
            whole = None if model.is_file() and not interval else _find_folder(model)
            document = model if whole is None else _export(whole, Path(folder) / "model.json")
            listening = _listen(host, port)
        port = listening.getsockname()[1]
        from regraft.cli.server import ServerSettings

        settings = ServerSettings(
            str(document.resolve()),
            str(whole) if interval else None,
            max_rows,
            max_bytes,
            timeout,
        )
        shown = f"[{host}]" if ":" in host else host
        _run(session, settings, listening, workers, f"http://{shown}:{port}")


def _find_folder(model: Path) -> Path:
    """Return the folder of a saved model, which may be that of ``fit --out``."""
    from regraft.estimators.model_files import find_model, is_model

    folder = find_model(model)
    if not is_model(folder):
        raise ValueError(
            f"{model} is not a saved model: pass its folder, or without --interval a file made by "
            "regraft export --to json."
        )
    return folder.resolve()


def _export(model: Path, path: Path) -> Path:
    """Export the model in another process, so that this one need not hold torch in memory."""
    words = ["-m", "regraft", "export", str(model), "--to", "json", "--out", str(path), "--quiet"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["the model cannot be exported."]
        raise ValueError(lines[-1].removeprefix("regraft: "))
    return path


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends answers at once only over sockets whose protocol is named.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()  # so that clients wait from now on, and are not turned away
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise ValueError(
            f"port {port} of {host} cannot be used ({reason}): choose others with --host and "
            "--port."
        ) from None
    return listening


def _run(session: Session, settings: Any, listening: socket.socket, workers: int, url: str) -> None:
    """Serve until a signal comes; SIGTERM lets requests finish and ends with 0."""
    import uvicorn

    from regraft.cli.server import make_app
    from regraft.cli.server_protocol import TimedProtocol

    options: dict[str, Any] = {
        "http": partial(TimedProtocol, header_seconds=settings.request_seconds),
        "ws": "none",
        "lifespan": "off",
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "limit_concurrency": _MAX_CONNECTIONS,
        "timeout_graceful_shutdown": _STOP_SECONDS,
    }
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if workers == 1:
        server = uvicorn.Server(uvicorn.Config(make_app(settings), **options))
        _announce(session, url)
        server.run([listening])
        return
    address = listening.getsockname()[:2]
    listening.close()  # each worker gets the address from uvicorn
    settings.publish()
    make = "regraft.cli.server:make_published_app"
    _announce(session, url)
    uvicorn.run(make, factory=True, workers=workers, host=address[0], port=address[1], **options)


def _announce(session: Session, url: str) -> None:
    session.say(f"serving on {url}: POST rows to /predict; stop with Ctrl-C")
    session.finish({"url": url}, [])
    sys.stdout.flush()
