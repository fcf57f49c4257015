"""The server of the dashboard, on separate threads."""

import errno
import ipaddress
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from jobs.background import background
from jobs.dashboard.app import Dashboard
from jobs.dashboard.feed import Feed
from jobs.dashboard.guard import Session
from quota.errors import BadInput, MutationQuotaError
from quota.settings import Settings
from quota.settings.security import read_text

_log = logging.getLogger(__name__)

_JOIN_SECONDS = 5.0
_DRAIN_SECONDS = 2
_MAX_CONNECTIONS = 200
_MIN_TOKEN_CHARS = 16


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
