"""The server of the dashboard, without a Kafka that it could reach."""

import signal
import socket
import subprocess
import threading

import httpx2
import pytest

from jobs.dashboard.feed import Feed
from jobs.dashboard.server import serve_dashboard
from quota.errors import BadInput, MutationQuotaError
from quota.settings import load_settings
from tests.support.deployment import set_options
from tests.support.programs import command_line

UNREACHABLE = ("kafka.bootstrap_servers=127.0.0.1:1", "kafka.timeout_seconds=0.1")


@pytest.fixture
def taken():
    """A port in use."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


@pytest.fixture
def token(tmp_path):
    file = tmp_path / "token"
    file.write_text("a token of some length\n")
    return file


def settings(*overrides):
    return load_settings([*UNREACHABLE, "dashboard.port=0", *overrides], environment={})


def test_it_serves_the_page_whether_or_not_kafka_can_be_reached_and_then_ends():
    with serve_dashboard(settings()) as url:
        assert httpx2.get(url).status_code == 200
        with httpx2.stream("GET", f"{url}api/stream") as stream:
            assert next(stream.iter_lines()) == "retry: 2000"
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(url)


def test_a_server_that_fails_ends_the_program_with_an_error(monkeypatch, caplog):
    def fail(*_):
        raise OSError("too many open files")

    monkeypatch.setattr("jobs.dashboard.server.uvicorn.Server.run", fail)
    ended = threading.Event()
    with pytest.raises(MutationQuotaError, match="has ended"), serve_dashboard(settings(), ended=ended):
        assert ended.wait(10)
    assert caplog.messages[0] == "the server of the dashboard has failed"


def test_a_port_in_use_is_one_line(taken):
    with pytest.raises(BadInput) as raised, serve_dashboard(settings(f"dashboard.port={taken}")):
        pass
    assert str(raised.value) == f"dashboard.port: 127.0.0.1:{taken} is in use; 0 selects a free port"


def test_a_free_port_is_chosen_if_none_is_configured(taken):
    with serve_dashboard(settings(f"dashboard.port={taken}"), any_port=True) as url:
        assert not url.endswith(f":{taken}/")
        assert httpx2.get(url).status_code == 200


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])  # noqa: S104 what is tested
def test_a_page_for_all_addresses_prints_one_that_opens(token, address):
    with serve_dashboard(settings(f"dashboard.address={address}", f"dashboard.token_file={token}")) as url:
        assert httpx2.get(url, follow_redirects=True).status_code == 200
        port = url.rstrip("/").rpartition(":")[2]
        assert httpx2.get(f"http://127.0.0.1:{port}/", headers={"Host": f"localhost:{port}"}).status_code == 303
        assert httpx2.get(f"http://127.0.0.1:{port}/").status_code == 303


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, "No such file or directory"),
        (b"too short\n", "its token has fewer than 16 characters"),
        (b"\xff" * 20, "not UTF-8"),
    ],
)
def test_a_token_that_admits_anyone_or_nobody_is_rejected_at_the_start(token, content, error):
    token.unlink() if content is None else token.write_bytes(content)
    guarded = settings("dashboard.address=0.0.0.0", f"dashboard.token_file={token}")
    with pytest.raises(BadInput) as raised, serve_dashboard(guarded):
        pass
    assert str(raised.value) == f"dashboard.token_file {token}: {error}"


def test_an_unexpected_failure_of_the_feed_is_logged_and_retried(monkeypatch):
    feed, stop, tries = Feed(settings()), threading.Event(), []

    def fail(_):
        tries.append(feed.contact)
        if len(tries) == 2:
            stop.set()
        raise ValueError("a certificate is half written")

    monkeypatch.setattr(feed, "_follow_until_failure", fail)
    monkeypatch.setattr("jobs.dashboard.feed._RETRY_SECONDS", 0.0)
    feed.follow(stop)
    assert (tries[1].state, tries[1].message) == ("unreachable", "ValueError: a certificate is half written")


def test_ctrl_c_stops_it_even_if_a_script_started_it_in_the_background(tmp_path):
    """A shell that runs a script has the commands that it starts with `&` ignore SIGINT."""
    options = set_options("dashboard.port=0", "kafka.bootstrap_servers=127.0.0.1:1", "kafka.timeout_seconds=0.1")
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command_line("dashboard", *options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        try:
            assert process.stdout.readline().startswith("dashboard at http://")
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            process.kill()
