"""Nothing in the dashboard can be reached from other sites, and nothing without the token where there is one."""

import pytest

from jobs.dashboard.guard import Session

TOKEN = "correct horse battery"  # noqa: S105 of the tests

CROSS_SITE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
SAME_SITE = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
"""Of another port of this machine."""

QUOTA = {"entity": {"user": "alice"}, "controller_mutation_rate": 5}


@pytest.mark.parametrize("host", ["127.0.0.1:8599", "127.0.0.1", "localhost:8599", "LOCALHOST:1234", "localhost"])
def test_the_names_of_this_machine_are_served(page, host):
    assert page().client.get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example:8599", "127.0.0.1.evil.example", "10.1.2.3:8599", "[::1]:8599", "", "localhost.:8599", "[", "::1"],
)
@pytest.mark.parametrize("path", ["/", "/api/stream", "/assets/dashboard.js", "/nothing"])
def test_other_host_names_are_rejected_against_dns_rebinding(page, host, path):
    assert page().client.get(path, headers={"Host": host}).status_code == 421


def test_a_name_of_the_settings_is_served(page):
    client = page(hosts="quota.example,other.example").client
    assert client.get("/", headers={"Host": "quota.example"}).status_code == 200
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 421


@pytest.mark.parametrize("headers", [CROSS_SITE, SAME_SITE, {"Origin": "http://127.0.0.1:9000"}, {"Origin": "null"}])
@pytest.mark.parametrize("path", ["/", "/api/stream", "/api/decisions/x", "/api/buckets?key=x", "/assets/dashboard.js"])
def test_another_site_can_read_nothing(page, headers, path):
    assert page().client.get(path, headers=headers).status_code == 403


def test_a_link_of_another_site_may_open_the_page_and_nothing_else(page):
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    client = page().client
    assert client.get("/", headers=headers).status_code == 200
    assert client.get("/api/decisions/x", headers=headers).status_code == 403
    assert client.get("/", headers=headers | {"Sec-Fetch-Dest": "iframe"}).status_code == 403


def test_with_a_token_a_link_of_another_site_leads_to_the_login(page):
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    client = page(token=TOKEN).client
    assert client.get("/", headers=headers, follow_redirects=True).status_code == 200


@pytest.mark.parametrize("path", ["/api/quotas", "/api/settings"])
def test_nothing_can_be_changed(page, path):
    shown = page()
    assert shown.client.post(path, json=QUOTA, headers=shown.own).status_code == 404


def test_a_trial_without_an_origin_is_rejected(page):
    assert page().client.post("/api/trials", json=QUOTA).status_code == 403


@pytest.mark.parametrize(
    "headers", [CROSS_SITE, SAME_SITE, {"Origin": "http://localhost:8599"}, {"Origin": "https://evil.example"}]
)
def test_another_site_can_try_nothing(page, headers):
    shown = page()
    assert shown.client.post("/api/trials", json=QUOTA, headers=shown.own | headers).status_code == 403


def test_behind_a_proxy_with_tls_the_origin_has_a_different_scheme(page):
    shown = page(hosts="quota.example")
    own = shown.own | {"Host": "quota.example", "Origin": "https://quota.example"}
    assert shown.client.post("/api/trials", json=QUOTA, headers=own).status_code == 200


@pytest.mark.parametrize("path", ["/", "/login", "/assets/uplot.js", "/nothing", "/api/decisions/x"])
def test_each_answer_has_a_strict_policy(page, path):
    headers = page().client.get(path).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"


def test_a_rejection_has_the_strict_policy_as_well(page):
    assert "default-src 'none'" in page().client.get("/", headers=CROSS_SITE).headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/api/stream", "/api/decisions/x", "/api/buckets", "/assets/dashboard.js"])
def test_with_a_configured_token_nothing_is_served_without_it(page, path):
    shown = page(token=TOKEN)
    assert shown.client.get(path).status_code == 401
    assert shown.client.get(path, headers={"Authorization": "Bearer no"}).status_code == 401
    assert shown.client.get(path, headers={"Cookie": "mutation-quota-8599=no"}).status_code == 401


def test_the_page_requests_the_token_once_per_browser(page):
    shown = page(token=TOKEN)
    response = shown.client.get("/")
    assert (response.status_code, response.headers["Location"]) == (303, "/login")
    origin = {"Origin": "http://127.0.0.1:8599"}
    wrong = shown.client.post("/login", data={"token": "incorrect horse battery"}, headers=origin)
    assert wrong.status_code == 403
    assert "Wrong token." in wrong.text
    assert "Set-Cookie" not in wrong.headers
    right = shown.client.post("/login", data={"token": TOKEN}, headers=origin)
    assert (right.status_code, right.headers["Location"]) == (303, "/")
    cookie = right.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert shown.client.get("/").status_code == 200


def test_a_program_presents_the_token_each_time(page):
    shown = page(token=TOKEN)
    assert shown.client.get("/api/buckets", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_another_site_cannot_present_the_token(page):
    """It could find out by this whether a token that it knows is right."""
    shown = page(token=TOKEN)
    for headers in ({}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
        assert shown.client.post("/login", data={"token": TOKEN}, headers=headers).status_code == 403


def test_an_empty_token_admits_no_client(page):
    shown = page()
    assert (
        shown.client.post("/login", data={"token": ""}, headers={"Origin": "http://127.0.0.1:8599"}).status_code == 403
    )


def test_each_start_has_a_different_id():
    one, other = Session(TOKEN), Session(TOKEN)
    assert one.start != other.start
