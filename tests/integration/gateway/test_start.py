"""Settings that a gateway finds wrong only at its start, and that end it with one line.

Other wrong settings: `test_settings.py`, `test_listeners.py` and `test_encryption.py` among the unit tests.
"""

import socket

import pytest

from jobs.cli.program import app
from jobs.sandbox.broker import HOST, free_port
from quota.errors import BadInput
from tests.support.broker import Authority
from tests.support.deployment import as_options, prepared_deployment, set_options

CASES = {
    "a port in use": (["gateway.first_port={taken}"], "{host}:{taken} is in use; set gateway.first_port or"),
    "brokers that bypass it": (
        ["gateway.advertised_by=brokers", "gateway.listeners={free}={host}:{port}"],
        "clients would bypass the gateway: brokers advertise {host}:{port}",
    ),
    "a certificate that is not for its key": (
        ["gateway.ssl_certificate_location={own.path}", "gateway.ssl_key_location={other.key}"],
        "cannot be used together: key values mismatch",
    ),
    "a file that is no certificate": (
        ["gateway.ssl_certificate_location={own.key}", "gateway.ssl_key_location={own.key}"],
        "gateway.ssl_certificate_location",
    ),
}
"""Settings and the expected line, by the name of the error."""


@pytest.fixture(scope="module")
def ground(base_settings, broker, tmp_path_factory):
    """Return the options of a deployment on the broker, and the values of the fields of the cases."""
    folder = tmp_path_factory.mktemp("bad")
    settings = prepared_deployment(base_settings, broker, "bad-start", folder)
    authority = Authority(folder / "certificates")
    certificates = {name: authority.sign(name, HOST) for name in ("own", "other")}
    with socket.create_server((HOST, 0)) as taken:
        ports = {"taken": taken.getsockname()[1], "free": free_port(), "port": broker.port}
        yield as_options(settings), {"host": HOST, **ports, **certificates}


@pytest.mark.timeout(90)  # one that starts would serve without end
@pytest.mark.parametrize(("given", "expected"), CASES.values(), ids=CASES)
def test_a_failed_start_ends_with_a_line_that_says_what_to_change(ground, given, expected, capsys):
    """It never becomes ready."""
    options, values = ground
    own = set_options(*(setting.format(**values) for setting in given))
    with pytest.raises(BadInput) as error:
        app(["gateway", *options, *own], standalone_mode=False)
    assert expected.format(**values) in str(error.value)
    assert "\n" not in str(error.value)
    assert capsys.readouterr().out == ""
