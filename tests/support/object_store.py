"""A server in place of an object store, which rejects requests, and settings that point to it."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from quota.settings import load_settings


class _Rejecting(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # which answers a client that asks whether to send a body

    def do_GET(self):
        self._reject(*self.server.answer)

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if "If-None-Match" in self.headers:
            self._reject(*self.server.conditional)
            return
        self.send_response(200)
        self.send_header("ETag", '"0"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _reject(self, status, code):
        body = f"<Error><Code>{code}</Code><Message>No.</Message></Error>".encode()
        if code == "NoSuchKey" and "list-type" in self.path:
            status, body = 200, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 as the server names it

    def log_message(self, *_):
        pass


@contextmanager
def rejecting_store():
    """Run a server inside the block, in a thread, which answers by the status and code of its attribute `answer`.

    With the code NoSuchKey, it is an empty bucket. It takes files, but answers conditional writes by `conditional`.
    """
    with ThreadingHTTPServer(("127.0.0.1", 0), _Rejecting) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def store_overrides(port):
    """Return the overrides of settings whose root is in the object store at a port of this machine."""
    options = {"endpoint": f"http://127.0.0.1:{port}", "access.key": "the-key", "secret.key": "the-secret"}
    return ["storage.root=s3a://bucket/root", *(f"storage.options.fs.s3a.{name}={options[name]}" for name in options)]


def store_settings(port):
    """Return settings whose root is in the object store at a port of this machine."""
    return load_settings(store_overrides(port), environment={}, with_default_file=False)
