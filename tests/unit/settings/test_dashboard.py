"""The addresses of the dashboard."""

import pytest

from quota.errors import BadInput
from quota.settings import load_settings


def load(*overrides):
    return load_settings(overrides, environment={}).dashboard


@pytest.mark.parametrize(
    ("address", "local"),
    [("127.0.0.1", True), ("127.0.0.2", True), ("::1", True), ("0.0.0.0", False), ("::", False), ("10.1.2.3", False)],  # noqa: S104 it is refused
)
def test_other_machines_need_a_token(address, local):
    given = [f"dashboard.address={address}"]
    if not local:
        with pytest.raises(BadInput, match="requires token_file"):
            load(*given)
        given.append("dashboard.token_file=read-when-it-starts")
    assert load(*given).is_local == local


@pytest.mark.parametrize("address", ["localhost", "quota.example", "127.0.0.1:80"])
def test_a_name_is_not_an_address(address):
    with pytest.raises(BadInput, match="is not an IP address"):
        load(f"dashboard.address={address}")
