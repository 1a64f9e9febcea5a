"""A server on the loopback interface that speaks the Messages API, well or badly as told."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-test-0123456789-secret"
SOON = {"retry-after-ms": "20"}  # which the SDK obeys instead of its own back-off


@dataclass(frozen=True)
class Received:
    """A request, its number from 0 on, and how often its question had come before."""

    body: Mapping[str, Any]
    headers: Mapping[str, str]  # names in small letters
    number: int
    before: int

    @property
    def question(self) -> str:
        return question_of(self.body)


@dataclass(frozen=True)
class Sent:
    """An answer to a request, after ``delay`` seconds."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0


def question_of(body: Mapping[str, Any]) -> str:
    return json.dumps([body["model"], body["system"], body["messages"]])


def message(text: str, *, delay: float = 0.0, input_tokens: int = 100, output: int = 4) -> Sent:
    """A whole message of the API with this text."""
    content = [{"type": "text", "text": text}] if text else []
    document = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": "end_turn" if text else "refusal",
        "stop_sequence": None,
        "usage": {"input_tokens": input_tokens, "output_tokens": output},
    }
    return Sent(body=json.dumps(document).encode(), delay=delay)


def failure(status: int, words: str, headers: Mapping[str, str] = SOON) -> Sent:
    """An error in the API's form."""
    document = {"type": "error", "error": {"type": "some_error", "message": words}}
    return Sent(status, json.dumps(document).encode(), headers)


class FakeApi:
    """Serves while in its context; ``answer`` says what to send, and may be replaced."""

    def __init__(self, answer: Callable[[Received], Sent] | None = None) -> None:
        self.answer = answer or (lambda _: message("A"))
        self.requests: list[Received] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.api = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def counts(self) -> Counter[str]:
        """How often each question came."""
        with self._lock:
            return Counter(request.question for request in self.requests)

    def __enter__(self) -> FakeApi:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def serve(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> Sent:
        with self._lock:
            before = sum(request.question == question_of(body) for request in self.requests)
            received = Received(body, headers, len(self.requests), before)
            self.requests.append(received)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            sent = self.answer(received)
            time.sleep(sent.delay)
        finally:
            with self._lock:
                self._at_once -= 1
        return sent


class _Server(ThreadingHTTPServer):
    api: FakeApi
    daemon_threads = True
    block_on_close = False  # a client that was killed may have left a connection open

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # clients time out and are killed
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet a reply: with more, each waits 40 ms for an acknowledgement
    server: _Server

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        content = self.rfile.read(length)
        if len(content) < length:  # the client was stopped while it sent
            self.close_connection = True
            return
        if self.path.partition("?")[0] != "/v1/messages":
            sent = failure(404, f"no such path {self.path}")
        else:
            headers = {name.lower(): value for name, value in self.headers.items()}
            sent = self.server.api.serve(json.loads(content), headers)
        self.send_response(sent.status)
        headers = {"content-type": "application/json"} | dict(sent.headers)
        for name, value in (headers | {"content-length": str(len(sent.body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(sent.body)

    def log_message(self, format: str, *args: Any) -> None:
        pass
