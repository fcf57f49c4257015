"""The addresses of the dashboard, and its access control."""

import pytest

from quota.errors import BadInput
from quota.settings import load_settings


@pytest.fixture
def token(tmp_path):
    """Return a function that writes a token into a file."""

    def _token(text="a token of some length\n"):
        file = tmp_path / "token"
        file.write_text(text)
        return f"dashboard.token_file={file}"

    return _token


def load(*overrides):
    return load_settings(overrides, environment={}).dashboard


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "::1"])
def test_this_machine_needs_no_token(address):
    assert load(f"dashboard.address={address}").is_local


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.1.2.3"])  # noqa: S104 it is refused
def test_other_machines_need_one(address, token):
    with pytest.raises(BadInput, match="requires token_file"):
        load(f"dashboard.address={address}")
    assert load(f"dashboard.address={address}", token()).token.startswith("a token")


@pytest.mark.parametrize("text", ["", "\n", "too short\n"])
def test_a_short_token_is_rejected(text, token):
    with pytest.raises(BadInput, match="fewer than 16 characters"):
        load(token(text))


def test_an_error_of_the_section_names_where_the_key_was_set(token):
    with pytest.raises(BadInput, match=r"\(--set dashboard.token_file="):
        load("dashboard.port=0", token("too short"))


@pytest.mark.parametrize("address", ["localhost", "quota.example", "127.0.0.1:80"])
def test_a_name_is_not_an_address(address):
    with pytest.raises(BadInput, match="is not an IP address"):
        load(f"dashboard.address={address}")


def test_a_missing_file_is_named():
    with pytest.raises(BadInput, match="token_file"):
        load("dashboard.token_file=/nowhere/token")
