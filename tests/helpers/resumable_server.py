"""A server of files on this machine that can be told to misbehave."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class ResumableServer:
    """What is served, and how."""

    address: str
    files: dict[str, bytes] = field(default_factory=dict)
    takes_ranges: bool = True
    heeds_versions: bool = True  # sends all of a file that is not the one of If-Range
    versions: dict[str, dict[str, str]] = field(default_factory=dict)  # headers, by path
    cut_after: int | None = None  # bytes after which the next answer ends
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # paths and ranges


@contextmanager
def serve_resumable() -> Iterator[ResumableServer]:
    """Serve files on a free port of the loopback interface."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name, wanted = self.path.lstrip("/"), self.headers.get("Range")
            served.asked.append((name, wanted))
            if name not in served.files:
                self.send_error(404)
                return
            content, start, version = served.files[name], 0, served.versions.get(name, {})
            condition = self.headers.get("If-Range")
            if condition and served.heeds_versions and condition not in version.values():
                wanted = None
            if wanted and served.takes_ranges:
                start = int(wanted.removeprefix("bytes=").rstrip("-"))
                if start >= len(content):
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(content)}")
                    self.end_headers()
                    return
            self.send_response(206 if wanted and served.takes_ranges else 200)
            self.send_header("Content-Length", str(len(content) - start))
            for header in version.items():
                self.send_header(*header)
            self.end_headers()
            cut, served.cut_after = served.cut_after, None
            self.wfile.write(content[start:] if cut is None else content[start : start + cut])

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served = ResumableServer(f"http://127.0.0.1:{server.server_port}/")
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        try:
            yield served
        finally:
            server.shutdown()
