"""The server of the dashboard: its HTTP interface, and how it starts and ends, without a Kafka that it could reach."""

import asyncio
import json
import os
import re
import signal
import subprocess
import threading
from urllib.parse import urljoin

import httpx2
import pytest
from msgspec.structs import replace

from jobs.dashboard.feed import Contact, Feed
from jobs.dashboard.server import serve_dashboard
from jobs.dashboard.trial import try_quota
from jobs.storage.holder import Holder
from jobs.storage.lease import Lease, LeaseWatch
from jobs.storage.stored_files import LocalFiles
from quota.errors import BadInput, MutationQuotaError
from quota.settings import load_settings
from quota.timeline.change import to_change
from tests.support.deployment import set_options
from tests.support.factories import START
from tests.support.programs import command_line
from tests.support.waiting import until
from tests.unit.jobs.dashboard.conftest import DEBT, REJECTED, fill

UNREACHABLE = ("kafka.bootstrap_servers=127.0.0.1:1", "kafka.timeout_seconds=0.1")


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


def test_a_port_in_use_is_one_line(port_in_use):
    with pytest.raises(BadInput) as raised, serve_dashboard(settings(f"dashboard.port={port_in_use}")):
        pass
    assert str(raised.value) == f"dashboard.port: 127.0.0.1:{port_in_use} is in use; 0 selects a free port"


def test_a_free_port_is_chosen_if_none_is_configured(port_in_use):
    with serve_dashboard(settings(f"dashboard.port={port_in_use}"), any_port=True) as url:
        assert not url.endswith(f":{port_in_use}/")
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


def test_it_knows_the_process_that_decides_if_it_can_read_the_storage_root(monkeypatch, tmp_path):
    monkeypatch.setattr("jobs.dashboard.feed._CHECK_SECONDS", 0.02)
    own = settings(f"storage.root={tmp_path}")
    me = replace(Holder.here(os.getpid(), None), host="node-3")
    short, long = (Lease(LocalFiles(str(tmp_path)), LeaseWatch("enforce"), seconds, me) for seconds in (0.5, 600))
    feed = Feed(own)
    with serve_dashboard(own, feed=feed):
        assert feed.active == ""
        short.claim()
        until(lambda: short.renew() or feed.active.startswith(f"process {os.getpid()} on node-3, since 2"))
        until(lambda: feed.active == "")  # it is not renewed
        long.claim()
        long.renew()
        until(lambda: feed.active != "")
        long.release()
        until(lambda: feed.active == "")


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


def first_event(page, **view):
    """Return the first event of the stream, which ends after it."""
    page.stop.is_set = iter([False, True, True, True]).__next__
    lines = page.client.get("/api/stream", params=view).text.split("\n\n")
    assert lines[0] == "retry: 2000"
    return json.loads(lines[1].removeprefix("data: "))


def test_the_stream_sends_the_whole_state(page):
    shown = page()
    fill(shown.state, DEBT, REJECTED)
    shown.feed.active = "process 7 on node-3"
    event = first_event(shown)
    assert event["active"] == "process 7 on node-3"
    assert event["contact"] == {"state": "live", "message": "", "at": 0}
    assert event["first"]
    assert event["start"] == shown.session.start
    assert [decision["id"] for decision in event["decisions"]] == [REJECTED.decision_id, DEBT.decision_id]


@pytest.mark.parametrize(
    ("view", "count"),
    [
        ({"filter": " ALI "}, 2),
        ({"filter": "bob"}, 0),
        ({"filter": "", "rejected": "1"}, 1),
        ({"from": str(START + 500)}, 1),
        ({"to": str(START)}, 0),
    ],
)
def test_the_stream_sends_what_the_page_asks_for(page, view, count):
    shown = page()
    fill(shown.state, DEBT, REJECTED)
    assert len(first_event(shown, **view)["decisions"]) == count


def test_nothing_that_grows_with_the_data_is_done_on_the_event_loop(page, monkeypatch):
    """There it delays all pages, and the probes."""

    def off_the_loop(function):
        def checked(*arguments, **named):
            with pytest.raises(RuntimeError, match="no running event loop"):
                asyncio.get_running_loop()
            done.add(function.__name__)
            return function(*arguments, **named)

        return checked

    shown, done = page(), set()
    fill(shown.state, DEBT)
    for name in ("news", "explain", "of_bucket", "records", "entries"):
        monkeypatch.setattr(shown.state, name, off_the_loop(getattr(shown.state, name)))
    monkeypatch.setattr("quota.callbacks.timeline.to_change", off_the_loop(to_change))
    monkeypatch.setattr("jobs.dashboard.server.try_quota", off_the_loop(try_quota))
    first_event(shown)
    wanted = {"entity": {"user": "alice"}, "controller_mutation_rate": 9}
    answers = [
        shown.client.get(f"/api/decisions/{DEBT.decision_id}"),
        shown.client.get("/api/buckets", params={"key": '["alice",""]'}),
        shown.client.post("/api/trials", json=wanted),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert done == {"news", "explain", "of_bucket", "records", "entries", "to_change", "try_quota"}


@pytest.mark.parametrize("end", ["from", "to"])
@pytest.mark.parametrize("text", ["yesterday", "nan", ""])
def test_a_period_that_is_none_is_not_served(page, end, text):
    answer = page().client.get("/api/stream", params={end: text})
    expected = f"{end}: expected a time in epoch ms, got '{text}'"
    assert (answer.status_code, answer.json()["error"]) == (400, expected)


def test_a_decision_that_is_not_stored_is_not_found(page):
    answer = page().client.get("/api/decisions/mutation-requests-0-99")
    assert answer.status_code == 404
    assert "`mutation-quota explain mutation-requests-0-99`" in answer.json()["error"]


def test_the_decisions_of_a_tenant_are_listed(page):
    shown = page()
    fill(shown.state, DEBT, replace(REJECTED, user_tag="bob"))
    bucket = shown.client.get("/api/buckets", params={"key": '["alice",""]'}).json()
    assert bucket["tenant"]["name"] == "user 'alice'"
    assert [decision["id"] for decision in bucket["decisions"]] == [DEBT.decision_id]


@pytest.mark.parametrize("path", ["/", "/login"])
def test_the_pages_load_nothing_from_elsewhere_and_have_no_code_in_them(page, path):
    text = page().client.get(path).text
    addresses = set(re.findall(r'(?:src|href|action)="([^"#]+)"', text))
    assert "assets/dashboard.css" in addresses
    assert {address.split("/")[0] for address in addresses} == {"assets"}
    assert text.count("<script") == text.count("></script>")
    assert "style=" not in text
    assert not re.search(r"\son\w+=", text)


def test_a_proxy_can_serve_it_under_a_path_of_its_host(page):
    """Such as /mutation-quota/, which the proxy removes: all addresses are relative, and the cookie is for the path."""
    client = page(token="correct horse battery").client  # noqa: S106 of the test
    login = urljoin("/mutation-quota/", client.get("/").headers["Location"])
    answer = client.post("/login", data={"token": "correct horse battery"})
    assert (login, urljoin(login, answer.headers["Location"])) == ("/mutation-quota/login", "/mutation-quota/")
    assert "path=" not in answer.headers["Set-Cookie"].lower()
    texts = [client.get(path).text for path in ("/", "/login", "/assets/dashboard.js")]
    addresses = [
        address for text in texts for address in re.findall(r"""["'`](/?(?:api|assets|login)/[^"'`]*)""", text)
    ]
    assert len(addresses) > 8
    assert [urljoin("/mutation-quota/", address)[:16] for address in addresses] == ["/mutation-quota/"] * len(addresses)


def test_settings_are_escaped(page):
    text = page(servers="<b>:9092").client.get("/").text
    assert "&lt;b&gt;:9092" in text
    assert "<b>" not in text


@pytest.mark.parametrize(
    ("name", "status"),
    [("uplot.js", 200), ("dashboard.css", 200), ("page.html", 404), ("..%2fpage.py", 404), ("%2e%2e/guard.py", 404)],
)
def test_the_files_of_the_page_are_served_and_no_others(page, name, status):
    assert page().client.get(f"/assets/{name}").status_code == status


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ({"entity": {"user": "alice"}, "controller_mutation_rate": 0}, "controller_mutation_rate"),
        ({"entity": {}, "controller_mutation_rate": 5}, "an entity needs a user"),
        ({"entity": {"user": "alice"}, "controller_mutation_rate": 5, "x": 1}, "x"),
        ([], "value"),
    ],
)
def test_an_invalid_quota_is_rejected_with_its_field(page, wanted, error):
    answer = page().client.post("/api/trials", json=wanted)
    assert answer.status_code == 400
    assert error in answer.json()["error"]


def test_a_body_of_another_content_type_is_rejected(page):
    """For JSON a browser first asks whether another site may send it, and gets no permission."""
    assert page().client.post("/api/trials", content="{}", headers={"Content-Type": "text/plain"}).status_code == 415


def test_a_body_that_is_too_large_is_rejected(page):
    assert page().client.post("/api/trials", json={"comment": "x" * 70_000}).status_code == 413


@pytest.mark.parametrize(
    ("state", "ready", "reason"),
    [
        ("live", 200, "it is ready"),
        ("starting", 503, "it is starting"),
        ("unreachable", 503, "Kafka cannot be reached; the page shows the reason"),
    ],
)
def test_probes_are_answered_without_the_token_and_name_no_address(page, state, ready, reason):
    shown = page(token="correct horse battery")  # noqa: S106 of the test
    shown.feed.contact = Contact(state, "cannot reach Kafka at secret.example:9092")
    assert shown.client.get("/healthz").status_code == 200
    answer = shown.client.get("/readyz")
    assert answer.status_code == ready
    assert answer.json() == {"service": "dashboard", "ok": ready == 200, "reason": reason}


def test_a_dashboard_whose_reading_thread_hangs_is_neither_healthy_nor_ready(page):
    shown = page()
    shown.feed.looped_at -= 601
    assert [shown.client.get(path).status_code for path in ("/healthz", "/readyz")] == [503, 503]
