"""The server of the dashboard, without a Kafka that it could reach."""

import socket

import httpx2
import pytest

from jobs.dashboard.server import serve_dashboard
from quota.errors import BadInput
from quota.settings import load_settings


@pytest.fixture
def taken():
    """A port that is in use."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def settings(*overrides):
    return load_settings(["kafka.bootstrap_servers=127.0.0.1:1", "dashboard.port=0", *overrides], environment={})


def test_it_serves_the_page_whether_or_not_kafka_can_be_reached_and_then_ends():
    with serve_dashboard(settings()) as url:
        assert httpx2.get(url).status_code == 200
        with httpx2.stream("GET", f"{url}api/stream") as stream:
            assert next(stream.iter_lines()) == "retry: 2000"
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(url)


def test_a_port_in_use_is_one_line(taken):
    with pytest.raises(BadInput) as raised, serve_dashboard(settings(f"dashboard.port={taken}")):
        pass
    assert str(raised.value) == f"dashboard.port: 127.0.0.1:{taken} is in use; --port 0 takes any free one"


def test_another_port_is_taken_where_any_will_do(taken):
    with serve_dashboard(settings(f"dashboard.port={taken}"), any_port=True) as url:
        assert not url.endswith(f":{taken}/")
        assert httpx2.get(url).status_code == 200


def test_an_address_of_another_machine_is_one_line(tmp_path):
    token = tmp_path / "token"
    token.write_text("a token of some length\n")
    wrong = settings("dashboard.address=192.0.2.1", f"dashboard.token_file={token}")
    with (
        pytest.raises(BadInput, match=r"^dashboard.address: 192.0.2.1:0 cannot be listened on: "),
        serve_dashboard(wrong),
    ):
        pass
