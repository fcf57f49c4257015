"""An S3 server for tests, which rejects an overwrite if the request says so."""

import re
import signal
import subprocess
from contextlib import closing, contextmanager
from http.client import HTTPConnection

from tests.support.checkout import CHECKOUT
from tests.support.needs import need
from tests.support.waiting import until

SERVER = CHECKOUT / ".moto" / "bin" / "moto_server"

_PROGRAM = """
from moto.server import main
from werkzeug.serving import WSGIRequestHandler
WSGIRequestHandler.handle_expect_100 = lambda handler: True
WSGIRequestHandler.log_request = lambda handler, code, *_: handler.log(
    "info", '"%s" %s "%s"', handler.requestline, code, handler.headers.get("User-Agent"))
main()
"""
"""The server, without one of the two answers that Werkzeug and Python give to `Expect: 100-continue`: now and then, the
AWS SDK takes the second one for the answer to the upload (getmoto/moto#9975). It logs who has sent a request."""

BUCKET = "quotas"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "the-key", "AWS_SECRET_ACCESS_KEY": "the-secret"}


class S3Server:
    """A running server."""

    def __init__(self, endpoint):
        """Take its URL."""
        self.endpoint = endpoint

    def options(self):
        """Return the settings that point a command at the server; credentials are in the environment."""
        return ["--set", f"storage.options.fs.s3a.endpoint={self.endpoint}"]


@contextmanager
def s3_server(log):
    """Run a server with an empty bucket inside the block."""
    need(SERVER.exists(), "no S3 server; make test-integration installs it")
    with log.open("wb") as output:
        command = [str(SERVER.with_name("python")), "-c", _PROGRAM, "-H", "127.0.0.1", "-p", "0"]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        match = until(lambda: re.search(r"Running on http://127\.0\.0\.1:(\d+)", log.read_text()))
        with closing(HTTPConnection("127.0.0.1", int(match[1]))) as connection:
            connection.request("PUT", f"/{BUCKET}")
            connection.getresponse().read()
        yield S3Server(f"http://127.0.0.1:{match[1]}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
