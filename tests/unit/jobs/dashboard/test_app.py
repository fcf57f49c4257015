"""The HTTP interface of the dashboard, which other sites and clients without its token cannot read."""

import json
import re

import pytest
from msgspec.structs import replace

from jobs.dashboard.feed import Contact
from tests.support.factories import START
from tests.unit.jobs.dashboard.conftest import DEBT, REJECTED, fill


def first_event(page, **view):
    """Return the first event of the stream, which ends after it."""
    page.stop.is_set = iter([False, True, True, True]).__next__
    lines = page.client.get("/api/stream", params=view).text.split("\n\n")
    assert lines[0] == "retry: 2000"
    return json.loads(lines[1].removeprefix("data: "))


def test_the_stream_sends_the_whole_state(page):
    shown = page()
    fill(shown.state, DEBT, REJECTED)
    event = first_event(shown)
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
        ({"from": str(START + 1)}, 1),
        ({"to": str(START)}, 0),
    ],
)
def test_the_stream_sends_what_the_page_asks_for(page, view, count):
    shown = page()
    fill(shown.state, DEBT, REJECTED)
    assert len(first_event(shown, **view)["decisions"]) == count


@pytest.mark.parametrize("end", ["from", "to"])
@pytest.mark.parametrize("text", ["yesterday", "nan", ""])
def test_a_period_that_is_none_is_not_served(page, end, text):
    answer = page().client.get("/api/stream", params={end: text})
    expected = f"{end}: expected a time in epoch ms, got '{text}'"
    assert (answer.status_code, answer.json()["error"]) == (400, expected)


def test_a_decision_is_explained_by_its_record_alone(page):
    shown = page()
    fill(shown.state, REJECTED)
    answer = shown.client.get(f"/api/decisions/{REJECTED.decision_id}").json()
    assert answer["summary"].startswith("Creating topic 'topic-0' (30 mutations) was rejected because the quota of 5 ")
    assert ["recomputed", "the same"] in answer["lines"]


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
    assert "/assets/dashboard.css" in addresses
    assert {address[0] for address in addresses} == {"/"}
    assert text.count("<script") == text.count("></script>")
    assert "style=" not in text
    assert not re.search(r"\son\w+=", text)


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


def test_a_quota_is_tried_out_on_what_was_decided(page):
    """60 at once, then 30 at K = -2.5. With a burst of 20 all the 60 are admitted, as they were, and then K = -37.5."""
    shown = page()
    fill(shown.state, DEBT, REJECTED)
    wanted = {"entity": {"user": "alice"}, "controller_mutation_rate": 5, "controller_mutation_burst": 20}
    answer = shown.client.post("/api/trials", json=wanted).json()
    assert answer["entity"] == "user-principal 'alice'"
    assert answer["command"] == (
        "mutation-quota quotas alter --user=alice "
        "--add-config controller_mutation_rate=5.0,controller_mutation_burst=20.0"
    )
    throttled = {name: answer["trial"][name]["throttled_seconds"] for name in ("recorded", "tried")}
    assert throttled == {"recorded": 0.5, "tried": 7.5}


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


TOKEN = "correct horse battery"  # noqa: S105 of the tests


@pytest.mark.parametrize("host", ["127.0.0.1:8599", "127.0.0.1", "LOCALHOST:1234", "quota.example"])
def test_the_names_of_this_machine_and_of_the_settings_are_served(page, host):
    shown = page(hosts="quota.example,other.example")
    assert shown.client.get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example:8599", "127.0.0.1.evil.example", "10.1.2.3:8599", "[::1]:8599", "", "localhost.:8599", "[", "::1"],
)
@pytest.mark.parametrize("path", ["/", "/api/stream", "/nothing"])
def test_other_host_names_are_rejected_against_dns_rebinding(page, host, path):
    assert page().client.get(path, headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("path", ["/", "/login", "/assets/uplot.js", "/nothing", "/api/decisions/x"])
@pytest.mark.parametrize("host", ["127.0.0.1:8599", "evil.example"])
def test_each_answer_has_a_strict_policy_and_is_hidden_from_other_sites(page, path, host):
    headers = page().client.get(path, headers={"Host": host, "Origin": "https://evil.example"}).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize("path", ["/api/stream", "/api/decisions/x", "/api/buckets", "/assets/dashboard.js"])
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer no"}, {"Cookie": "mutation-quota-8599=no"}])
def test_with_a_configured_token_nothing_is_served_without_it(page, path, headers):
    client = page(token=TOKEN).client
    assert client.get(path, headers=headers).status_code == 401
    assert client.get("/api/buckets", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_the_page_requests_the_token_once_per_browser(page):
    shown = page(token=TOKEN)
    response = shown.client.get("/")
    assert (response.status_code, response.headers["Location"]) == (303, "/login")
    wrong = shown.client.post("/login", data={"token": "incorrect horse battery"})
    assert wrong.status_code == 403
    assert "Wrong token." in wrong.text
    assert "Set-Cookie" not in wrong.headers
    right = shown.client.post("/login", data={"token": TOKEN})
    assert (right.status_code, right.headers["Location"]) == (303, "/")
    cookie = right.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert shown.client.get("/").status_code == 200


def test_an_empty_token_admits_no_client(page):
    assert page().client.post("/login", data={"token": ""}).status_code == 403
