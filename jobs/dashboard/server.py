"""The server of the dashboard: the page, the stream of changes, the data of its dialogs, and its threads."""

import asyncio
import errno
import ipaddress
import logging
import math
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import parse_qs

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from jobs.background import background
from jobs.dashboard.feed import Feed
from jobs.dashboard.guard import Guard, Session
from jobs.dashboard.page import Assets
from jobs.dashboard.state import View
from jobs.dashboard.trial import WantedQuota, try_quota
from jobs.metrics.endpoint import HEALTH_PATH, READINESS_PATH, ProbeResult
from jobs.metrics.loops import LoopHealth
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadInput, BadRecord, MutationQuotaError
from quota.explanation.explanation_text import explanation_rows, summarize
from quota.kafka.timing import now_ms
from quota.records import codec
from quota.settings import Settings
from quota.settings.security import read_text
from quota.text import quoted

_log = logging.getLogger(__name__)

_JOIN_SECONDS = 5.0
_DRAIN_SECONDS = 2
_MAX_CONNECTIONS = 200
_MIN_TOKEN_CHARS = 16

_TICK_SECONDS = 1.0
_POLL_SECONDS = 0.1
_MAX_STREAMS = 50
_MAX_BODY_BYTES = 64 * 1024
_BUCKET_DECISIONS = 100
_WRONG_TOKEN_SECONDS = 0.5

_wanted_decoder = msgspec.json.Decoder(WantedQuota)


class Dashboard:
    """Serves the requests of browsers."""

    def __init__(self, settings: Settings, feed: Feed, session: Session, stop: threading.Event) -> None:
        """Load the files of the page; the streams end when `stop` is set."""
        self._settings = settings
        self._feed = feed
        self._session = session
        self._stop = stop
        self._health = LoopHealth(feed, feed.missing)
        self._assets = Assets(settings, session)
        self._streams = 0
        self._trying = asyncio.Lock()

    def app(self) -> Starlette:
        """Return the ASGI application."""
        own = self._settings.dashboard
        hosts = [*own.hosts, "localhost"]
        routes = [
            Route("/", self._page),
            Route("/login", self._login, methods=["GET", "POST"]),
            Route(HEALTH_PATH, self._live),
            Route(READINESS_PATH, self._ready),
            Route("/assets/{name}", self._asset),
            Route("/api/stream", self._stream),
            Route("/api/decisions/{id}", self._explanation),
            Route("/api/buckets", self._bucket),
            Route("/api/trials", self._trial, methods=["POST"]),
        ]
        return Starlette(routes=routes, middleware=[Middleware(Guard, session=self._session, hosts=hosts)])

    async def _page(self, _: Request) -> Response:
        return HTMLResponse(self._assets.page)

    async def _login(self, request: Request) -> Response:
        if request.method != "POST":
            return HTMLResponse(self._assets.login(""))
        body = await _body(request)
        token = parse_qs((body or b"").decode(errors="replace")).get("token", [""])[0]
        if not self._session.accepts_token(token):
            await asyncio.sleep(_WRONG_TOKEN_SECONDS)
            return HTMLResponse(self._assets.login("Wrong token."), 403)
        response = RedirectResponse("./", 303)
        self._session.set_cookie(request.scope, response)
        return response

    async def _live(self, _: Request) -> Response:
        return _probed(self._health.live())

    async def _ready(self, _: Request) -> Response:
        return _probed(self._health.ready())

    async def _asset(self, request: Request) -> Response:
        asset = self._assets.files.get(request.path_params["name"])
        if asset is None:
            return PlainTextResponse("File not found.\n", 404)
        return Response(asset.content, media_type=asset.media_type)

    async def _stream(self, request: Request) -> Response:
        try:
            query = request.query_params
            period = _moment(query, "from", 0), _moment(query, "to", math.inf)
            view = View(query.get("filter", "").strip().casefold(), "rejected" in query, period)
        except BadInput as error:
            return _error(str(error), 400)
        if self._streams >= _MAX_STREAMS:
            return PlainTextResponse("Too many pages are open.\n", 503)
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(self._events(view), media_type="text/event-stream", headers=headers)

    async def _events(self, view: View) -> AsyncIterator[bytes]:
        self._streams += 1
        try:
            yield b"retry: 2000\n\n"
            while not self._stop.is_set():
                yield await run_in_threadpool(self._event, view)
                for _ in range(round(_TICK_SECONDS / _POLL_SECONDS)):
                    if self._stop.is_set():
                        break
                    await asyncio.sleep(_POLL_SECONDS)
        finally:
            self._streams -= 1

    def _event(self, view: View) -> bytes:
        now = now_ms()
        about = {"now": now, "start": self._session.start, "contact": self._feed.contact, "active": self._feed.active}
        return b"data: %s\n\n" % codec.encode(about | self._feed.state.news(view, now))

    def _explanation(self, request: Request) -> Response:
        decision_id = request.path_params["id"]
        explanation = self._feed.state.explain(decision_id)
        if explanation is None:
            return _error(
                "This decision is no longer stored by the dashboard; "
                f"`mutation-quota explain {decision_id}` reads the audit's tables.",
                404,
            )
        lines = list(explanation_rows(explanation))
        return _json({"summary": summarize(explanation.decision, now_ms()), "lines": lines})

    def _bucket(self, request: Request) -> Response:
        return _json(self._feed.state.of_bucket(request.query_params.get("key", ""), _BUCKET_DECISIONS))

    async def _trial(self, request: Request) -> Response:
        wanted = await self._wanted(request)
        if isinstance(wanted, Response):
            return wanted
        async with self._trying:  # one at a time, because each uses a whole processor
            return await run_in_threadpool(self._tried, wanted)

    def _tried(self, wanted: WantedQuota) -> Response:
        records, entries = self._feed.state.records(), self._feed.state.entries()
        present = CallbackTimeline.of(entries).timeline.quota(wanted.entity, now_ms())
        trial = try_quota(records, entries, self._settings, wanted.entity, wanted.applied_to(present))
        return _json({"entity": str(wanted.entity), "trial": trial, "command": wanted.command(present)})

    @staticmethod
    async def _wanted(request: Request) -> WantedQuota | Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return _error("Expected JSON.", 415)
        body = await _body(request)
        if body is None:
            return _error("The request is too large.", 413)
        try:
            return codec.decode(body, _wanted_decoder)
        except BadRecord as error:
            return _error(str(error), 400)


def _moment(query: Mapping[str, str], name: str, default: float) -> float:
    """Return an end of the period that a page asks for [epoch ms]; raises BadInput if it is not a number."""
    text = query.get(name)
    if text is None:
        return default
    with suppress(ValueError):
        if not math.isnan(moment := float(text)):
            return moment
    raise BadInput(f"{name}: expected a time in epoch ms, got {quoted(text)}")


async def _body(request: Request) -> bytes | None:
    """Return the body of a request; None if it is too large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY_BYTES:
            return None
    return body


def _probed(answer: ProbeResult) -> Response:
    return Response(answer.body("dashboard"), answer.status, media_type="application/json")


def _json(value: Any, status: int = 200) -> Response:  # noqa: ANN401 any value with a JSON form
    return Response(codec.encode(value), status, media_type="application/json")


def _error(message: str, status: int) -> Response:
    return _json({"error": message}, status)


@contextmanager
def serve_dashboard(
    settings: Settings, *, any_port: bool = False, feed: Feed | None = None, ended: threading.Event | None = None
) -> Iterator[str]:
    """Serve the page inside the block, and yield its URL; the topics need not exist yet.

    With `any_port` it takes any free port if that of the settings is in use. The data is read from the topics, unless a
    `feed` is given. If the server ends by itself, `ended` is set, and the end of the block is an error.
    """
    own = settings.dashboard
    session = Session(_read_token(own.token_file))
    feed, stop = feed or Feed(settings), threading.Event()
    app = Dashboard(settings, feed, session, stop).app()
    listening = _listen(own.address, own.port, any_port=any_port)
    with listening, background(feed.follow, "dashboard-feed", _JOIN_SECONDS):
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                lifespan="off",
                ws="none",
                limit_concurrency=_MAX_CONNECTIONS,
                timeout_graceful_shutdown=_DRAIN_SECONDS,
            )
        )

        is_serving = True

        def serve() -> None:
            nonlocal is_serving
            try:
                server.run([listening])
            except Exception:  # noqa: BLE001 nobody else would see that it ended
                _log.exception("the server of the dashboard has failed")
            is_serving = False
            if ended is not None:
                ended.set()

        thread = threading.Thread(target=serve, name="dashboard", daemon=True)
        thread.start()
        try:
            yield _url(own.address, listening.getsockname()[1])
            if not is_serving:
                raise MutationQuotaError("the server of the dashboard has ended; see the log")
        finally:
            stop.set()
            server.should_exit = True
            thread.join(_JOIN_SECONDS)


def _read_token(file: str) -> str:
    """Return the token in a file, without white space around it; empty if none is needed."""
    try:
        token = read_text(file).strip()
    except ValueError as error:
        raise BadInput(f"dashboard.token_file {error}") from None
    if file and len(token) < _MIN_TOKEN_CHARS:
        raise BadInput(f"dashboard.token_file {file}: its token has fewer than {_MIN_TOKEN_CHARS} characters")
    return token


def _listen(address: str, port: int, *, any_port: bool) -> socket.socket:
    family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET  # noqa: PLR2004
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address, port))
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE and any_port and port:
            return _listen(address, 0, any_port=False)
        if error.errno == errno.EADDRINUSE:
            raise BadInput(f"dashboard.port: {address}:{port} is in use; 0 selects a free port") from None
        raise BadInput(f"dashboard.address: cannot listen on {address}:{port}: {error.strerror}") from None
    listening.listen()
    return listening


def _url(address: str, port: int) -> str:
    if ipaddress.ip_address(address).is_unspecified:
        address = "::1" if ":" in address else "127.0.0.1"
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}/"
