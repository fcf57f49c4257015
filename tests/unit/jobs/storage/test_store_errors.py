"""What an object store refuses is one line that says what to do, within seconds."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from jobs.storage.stored_files import check_store
from quota.errors import MutationQuotaError
from quota.settings import load_settings
from quota.settings.store_errors import store_problem


@pytest.fixture
def store():
    """A server that answers everything by the status and code of its attribute `answer`."""

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self):
            status, code = self.server.answer
            body = f"<Error><Code>{code}</Code><Message>No.</Message></Error>".encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 as the server names it

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def settings_of(port):
    options = {"endpoint": f"http://127.0.0.1:{port}", "access.key": "the-key", "secret.key": "the-secret"}
    overrides = [f"storage.options.fs.s3a.{name}={value}" for name, value in options.items()]
    return load_settings(["storage.root=s3a://bucket/root", *overrides], environment={}, with_default_file=False)


def refusal(port):
    with pytest.raises(MutationQuotaError) as raised:
        check_store(settings_of(port))
    told = str(raised.value)
    assert "\n" not in told
    assert "the-secret" not in told
    assert told.startswith("s3a://bucket/root cannot be used: ")
    return told.removeprefix("s3a://bucket/root cannot be used: ")


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (403, "InvalidAccessKeyId", "the store does not know the access key; check storage.options fs.s3a.access.key"),
        (403, "SignatureDoesNotMatch", "the secret key is not the one of the access key; check storage.options"),
        (403, "AccessDenied", "the store denies access with these credentials; allow them to list the bucket"),
        (400, "ExpiredToken", "the credentials have expired; renew them"),
        (404, "NoSuchBucket", "there is no such bucket; create it, or correct storage.root"),
        (400, "AuthorizationHeaderMalformed", "the bucket is in another region; set storage.options"),
        (301, "PermanentRedirect", "the bucket is in another region; set storage.options"),
        (503, "SlowDown", "http://127.0.0.1:"),
    ],
)
def test_a_refusal_says_what_to_do(store, status, code, expected):
    store.answer = (status, code)
    assert refusal(store.server_port).startswith(expected)


def test_a_store_that_is_down_is_named():
    assert refusal(1).startswith("http://127.0.0.1:1 does not answer; check storage.options fs.s3a.endpoint")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("java.nio.file.AccessDeniedException: s3a://b/r: open s3a://b/r: (Service: S3, Status Code: 403", "denies"),
        ("org.apache.hadoop.fs.s3a.UnknownStoreException: `s3a://b/r': Bucket does not exist", "no such bucket"),
        ("NoAuthWithAWSException: No AWS Credentials provided by Temp", "there are no credentials"),
        ("java.net.ConnectException: Your endpoint configuration is wrong; Connection refused", "does not answer"),
        ("The provided token has expired. (Service: S3, Status Code: 400", "have expired"),
        ("Kernel error -> The operation lacked the necessary privileges to complete for path r", "denies access"),
    ],
)
def test_what_hadoop_and_the_tables_tell_later_is_understood_too(text, expected):
    assert expected in store_problem(settings_of(1).storage, text)


def test_other_errors_and_other_roots_are_left_alone():
    local = load_settings(environment={}, with_default_file=False).storage
    assert store_problem(settings_of(1).storage, "java.lang.IllegalStateException: no") is None
    assert store_problem(local, "Connection refused") is None
