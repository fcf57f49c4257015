"""A server of access tokens by OAuth's client credentials, signed by openssl, and of the keys to check them."""

import base64
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import parse_qs

from jobs.sandbox.broker import HOST, free_port

SCOPE = "kafka"
ISSUER, KEY_ID = "tests", "key-1"
_HOUR = 3600


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class Signer:
    """A key of RSA, and tokens signed by it."""

    def __init__(self, folder: Path) -> None:
        """Create a key, or use the existing one."""
        self._key = folder / "tokens.key"
        if not self._key.exists():
            _openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(self._key))
        modulus = _openssl("rsa", "-in", str(self._key), "-noout", "-modulus").decode().strip().partition("=")[2]
        self._modulus = bytes.fromhex(modulus)

    @property
    def jwks(self) -> dict[str, object]:
        """The public key, as a JSON Web Key Set."""
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID, "e": "AQAB"}
        return {"keys": [{**key, "n": _base64url(self._modulus)}]}

    def sign(self, subject: str, lifetime_seconds: float = _HOUR) -> str:
        """Return a token of a subject."""
        now = time.time()
        claims = {"sub": subject, "iss": ISSUER, "aud": SCOPE, "scope": SCOPE}
        times = {"iat": int(now), "exp": int(now + lifetime_seconds)}
        parts = [{"alg": "RS256", "typ": "JWT", "kid": KEY_ID}, {**claims, **times}]
        text = ".".join(_base64url(json.dumps(part).encode()) for part in parts)
        signature = _openssl("dgst", "-sha256", "-sign", str(self._key), given=text.encode())
        return f"{text}.{_base64url(signature)}"


def signed_token(config: str) -> tuple[str, float]:
    """Return a token, like a token function of the settings. The config is the signer's folder and the subject."""
    folder, _, subject = config.rpartition("=")
    return Signer(Path(folder)).sign(subject), time.time() + _HOUR


class Grant(NamedTuple):
    """A token that was granted."""

    client_id: str
    at: float
    """The time, by the monotonic clock [s]."""
    to_java: bool
    """Whether a Java client had requested it."""


class TokenServer:
    """A server on a free port of 127.0.0.1; as a context manager it serves inside the block."""

    def __init__(
        self, signer: Signer, clients: Mapping[str, str], certificate: tuple[Path, Path] | None = None
    ) -> None:
        """Prepare a server."""
        self.signer = signer
        self.clients = dict(clients)
        self.lifetime_seconds: float = _HOUR
        self.granted: list[Grant] = []
        """The tokens that were granted."""
        self._port = free_port()
        self._certificate = certificate
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """The address of the token endpoint."""
        return f"{self._base}/token"

    @property
    def jwks_url(self) -> str:
        """The address of the keys."""
        return f"{self._base}/jwks"

    @property
    def _base(self) -> str:
        return f"{'https' if self._certificate else 'http'}://{HOST}:{self._port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Serve."""
        self._server = ThreadingHTTPServer((HOST, self._port), self._handler())
        if self._certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self._certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Reject connections until it is started again."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def answer(self, client_id: str, secret: str, scope: str, user_agent: str) -> tuple[int, dict[str, object]]:
        """Return the status and the answer to a request for a token."""
        if client_id not in self.clients:
            return 401, {"error": "invalid_client", "error_description": f"client {client_id} is not known"}
        if secret != self.clients[client_id]:
            return 401, {"error": "invalid_client", "error_description": "the client secret is wrong"}
        if scope not in {"", SCOPE}:
            return 400, {"error": "invalid_scope", "error_description": f"no scope {scope}"}
        self.granted.append(Grant(client_id, time.monotonic(), user_agent.startswith("Java/")))
        token = self.signer.sign(client_id, self.lifetime_seconds)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": int(self.lifetime_seconds)}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send(200, owner.signer.jwks)

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                kind, _, encoded = self.headers.get("Authorization", "").partition(" ")
                client_id, secret = form.get("client_id", [""])[0], form.get("client_secret", [""])[0]
                if kind == "Basic":
                    client_id, _, secret = base64.b64decode(encoded).decode().partition(":")
                scope, user_agent = form.get("scope", [""])[0], self.headers.get("User-Agent", "")
                self._send(*owner.answer(client_id, secret, scope, user_agent))

            def _send(self, status: int, body: object) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_args: object) -> None:
                pass

        return Handler


def _openssl(*args: str, given: bytes = b"") -> bytes:
    return subprocess.run(["openssl", *args], check=True, capture_output=True, input=given).stdout
