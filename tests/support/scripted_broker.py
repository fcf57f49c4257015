"""A broker with responses from a test, for responses that a real broker sends rarely or never."""

import socketserver
import struct
import threading
from contextlib import contextmanager

from quota.wire.headers import read_request_header, write_response
from quota.wire.protocol import ApiKey


def accepted_login(mechanism, auth_bytes=b""):
    """Return the answers to a login that the broker accepts, with its message."""
    answer = {"errorCode": 0, "errorMessage": None, "authBytes": auth_bytes, "sessionLifetimeMs": 0}
    return {ApiKey.SASL_HANDSHAKE: {"errorCode": 0, "mechanisms": [mechanism]}, ApiKey.SASL_AUTHENTICATE: answer}


class ScriptedBroker:
    """Listens on a port of 127.0.0.1, and records the requests that it gets as (API key, message)."""

    def __init__(self, protocol, answers, versions=None):
        """Take for each API key a message, or a function from the request to it; None closes the connection.

        `versions` has the last version of each API, by default those of the protocol.
        """
        self.requests = []
        self.hung_up = 0
        """The number of connections that clients have closed."""
        self._protocol = protocol
        self.answers = answers
        self._versions = versions or {key: api.max_version for key, api in protocol.apis.items()}
        self.port = 0

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @contextmanager
    def listening(self):
        broker = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                broker.serve(self.rfile, self.wfile)

        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            self.port = server.server_address[1]
            thread = threading.Thread(target=server.serve_forever, args=(0.05,))
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()

    def serve(self, reader, writer):
        while length := reader.read(4):
            frame = reader.read(struct.unpack(">i", length)[0])
            header = read_request_header(frame, self._protocol)
            key, version = header.api_key, header.api_version
            if key != ApiKey.API_VERSIONS and version > self._versions.get(key, -1):
                return  # as a broker does with unknown requests
            request = self._protocol.request(key, version).read(frame, header.body)
            self.requests.append((key, request))
            answer = self._answer(key, request)
            if answer is None:
                return
            body = self._protocol.response(key, version).write(answer)
            writer.write(write_response(header, body, self._protocol))
        self.hung_up += 1

    def _answer(self, key, request):
        if key == ApiKey.API_VERSIONS:
            known = [{"apiKey": api, "minVersion": 0, "maxVersion": last} for api, last in self._versions.items()]
            return {"errorCode": 0, "apiKeys": known, "throttleTimeMs": 0}
        answer = self.answers[key]
        return answer(request) if callable(answer) else answer
