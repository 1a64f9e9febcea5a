"""The HTTP server of ``regraft serve``: /predict, /health and /card."""

from __future__ import annotations

import asyncio
import html
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio
import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from regraft.cli.server_input import BadRequest, Query, read_query
from regraft.estimators.scoring import Scorer

SETTINGS = "REGRAFT_SERVE"  # environment variable that workers read
_PATHS = "/predict, /health and /card"
_TYPES = {"application/json": False, "text/csv": True}
_LINGER = 2.0  # seconds in which the rest of a refused body is thrown away
_THREADS = 2  # that predict at a time; more would only wait for each other
_CLOSE = {"connection": "close"}
_SAFE = {"content-security-policy": "default-src 'none'", "x-content-type-options": "nosniff"}


@dataclass(frozen=True)
class ServerSettings:
    """What a worker of the server needs to know."""

    document: str  # file of the model, exported as JSON
    model: str | None  # folder of the saved model, for intervals
    max_rows: int
    max_bytes: int
    request_seconds: float  # in which a request has to arrive

    def publish(self) -> None:
        """Tell workers that are started from this process."""
        os.environ[SETTINGS] = json.dumps(asdict(self))


def make_published_app() -> Starlette:
    """Make the application of a worker that another process started."""
    return make_app(ServerSettings(**json.loads(os.environ[SETTINGS])))


def make_app(settings: ServerSettings) -> Starlette:
    """Make the application; its files are read here, and none after."""
    scorer = Scorer.read(settings.document)
    bounds = None if settings.model is None else _load_bounds(settings.model, scorer)
    answers = _Answers(settings, scorer, bounds)
    return Starlette(
        routes=[
            Route("/predict", answers.predict, methods=["POST"]),
            Route("/health", answers.health, methods=["GET"]),
            Route("/card", answers.card, methods=["GET"]),
        ],
        exception_handlers={
            BadRequest: _refuse,
            HTTPException: _refuse_path,
            ClientDisconnect: _ignore,
            Exception: _fail,
        },
    )


class _Answers:
    """Answers to requests."""

    def __init__(
        self,
        settings: ServerSettings,
        scorer: Scorer,
        bounds: Callable[[Query], dict[str, Any]] | None,
    ) -> None:
        self._settings, self._scorer, self._bounds = settings, scorer, bounds
        self._limiter = anyio.CapacityLimiter(_THREADS)
        self._classes = scorer.classes.tolist()

    async def predict(self, request: Request) -> Response:
        """Answer rows with labels and probabilities."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in _TYPES or "content-encoding" in request.headers:
            raise BadRequest("send application/json or text/csv, without compression.", 415)
        body = await self._read_body(request)
        content = await anyio.to_thread.run_sync(
            self._answer, body, _TYPES[kind], limiter=self._limiter
        )
        return Response(content, media_type="application/json")

    def _answer(self, body: bytes, is_csv: bool) -> bytes:
        query = read_query(body, is_csv, self._scorer, self._settings.max_rows)
        if query.interval and self._bounds is None:
            raise BadRequest("this server gives no intervals: start it with --interval.")
        try:
            with np.errstate(all="ignore"):
                log_p = self._scorer.log_probabilities(self._scorer.encode_rows(query.rows))
        except ValueError as error:  # a gap where the model needs a number
            raise BadRequest(str(error)) from None
        wrong = ~np.isfinite(log_p.max(axis=1))
        if wrong.any():
            raise BadRequest(f"row {int(wrong.argmax()) + 1} has numbers that are too large.")
        document: dict[str, Any] = {
            "classes": self._classes,
            "labels": self._scorer.classes[log_p.argmax(axis=1)].tolist(),
            "probabilities": np.exp(log_p).tolist(),
        }
        if query.interval and self._bounds is not None:
            document |= self._bounds(query)
        document["warnings"] = query.warnings
        if query.ignored:
            document["ignored"] = query.ignored
        return json.dumps(document, allow_nan=False).encode()

    async def _read_body(self, request: Request) -> bytes:
        """Read the body, but no more than is allowed, nor longer."""
        most = self._settings.max_bytes
        sentence = f"the body has more than {most:,} bytes: send the rows in parts."
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > most:
            if (
                "expect" not in request.headers
            ):  # else the body waits for leave that it does not get
                await _drain(request)
            raise BadRequest(sentence, 413)
        body = bytearray()
        try:
            async with asyncio.timeout(self._settings.request_seconds):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > most:
                        break
        except TimeoutError:
            raise BadRequest("the body took too long to arrive.", 408) from None
        if len(body) > most:
            await _drain(request)
            raise BadRequest(sentence, 413)
        return bytes(body)

    async def health(self, request: Request) -> Response:
        """Say that the server works."""
        return JSONResponse({"status": "ok", "interval": self._bounds is not None})

    async def card(self, request: Request) -> Response:
        """Show the certificate and the model card, for programs or for people."""
        about, wanted = self._scorer.about, request.headers.get("accept", "")
        if "text/html" in wanted:
            page = (
                f"<!doctype html><title>Model card</title><pre>{html.escape(about['card'])}</pre>"
            )
            return HTMLResponse(page, headers=_SAFE)
        if "text/markdown" in wanted:
            return Response(about["card"], media_type="text/markdown", headers=_SAFE)
        pairs = zip(self._scorer.columns, self._scorer.kinds, strict=True)
        columns = [{"name": name, "kind": kind} for name, kind in pairs]
        return JSONResponse({"classes": self._classes, "columns": columns} | about)


def _load_bounds(path: str, scorer: Scorer) -> Callable[[Query], dict[str, Any]]:
    """Load the whole model, which takes torch, and return a function for its intervals."""
    import torch

    from regraft.estimators.cro import CROClassifier
    from regraft.estimators.pipelines import split_model
    from regraft.estimators.saving import load

    torch.set_num_threads(1)
    before, head = split_model(load(Path(path)))
    if not isinstance(head, CROClassifier):
        raise ValueError(f"{type(head).__name__} has no intervals: leave out --interval.")

    def bounds(query: Query) -> dict[str, Any]:
        columns = scorer.list_columns(query.rows)
        X = query.rows.numbers if before is None else before.transform(columns)
        return head.predict_interval(X).to_dict()

    return bounds


async def _drain(request: Request) -> None:
    """Throw away what a client is still sending, so that it reads the answer and no reset."""
    try:
        async with asyncio.timeout(_LINGER):
            async for _ in request.stream():
                pass
    except (TimeoutError, ClientDisconnect, RuntimeError):
        pass


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, BadRequest)
    headers = _CLOSE if error.status in (408, 413) else None
    return JSONResponse({"error": str(error)}, error.status, headers)


async def _refuse_path(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = error.detail
    if error.status_code == 404:
        sentence = f"there is nothing at this path: use {_PATHS}."
    elif error.status_code == 405:
        sentence = f"this path does not take {request.method}: use POST for /predict, else GET."
    return JSONResponse({"error": sentence}, error.status_code, error.headers)


async def _ignore(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "the client has left."}, 400)


async def _fail(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "the server has failed, which its log explains."}, 500)
