"""A server of files on the loopback interface, for the tests of downloads."""

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class FileServer(ThreadingHTTPServer):
    """Serves ``files`` by name, cut short by ``missing_bytes``, and records what is asked for."""

    daemon_threads = True

    def __init__(self, files: Mapping[str, bytes], missing_bytes: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files, self.missing_bytes = files, missing_bytes
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        name = self.path.removeprefix("/")
        self.server.asked.append(name)
        if name not in self.server.files:
            self.send_error(404)
            return
        content = self.server.files[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) - self.server.missing_bytes])

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""
