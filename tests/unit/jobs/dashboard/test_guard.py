"""Access to the dashboard: other sites and clients without its token cannot read it."""

import pytest

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
    assert (response.status_code, response.headers["Location"]) == (303, "login")
    wrong = shown.client.post("/login", data={"token": "incorrect horse battery"})
    assert wrong.status_code == 403
    assert "Wrong token." in wrong.text
    assert "Set-Cookie" not in wrong.headers
    right = shown.client.post("/login", data={"token": TOKEN})
    assert (right.status_code, right.headers["Location"]) == (303, "./")
    cookie = right.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert shown.client.get("/").status_code == 200


def test_an_empty_token_admits_no_client(page):
    assert page().client.post("/login", data={"token": ""}).status_code == 403
