"""Kafka's protocol for connections without sockets."""

import pytest

from quota.wire.protocol import Protocol
from tests.support.checkout import CHECKOUT


@pytest.fixture(scope="session")
def gateway_protocol():
    return Protocol.of_jar(CHECKOUT / ".jars" / "broker")


@pytest.fixture
def anyio_backend():
    """The event loop of asynchronous tests: that of the standard library."""
    return "asyncio"


def own_certificate(authority):
    """Return the settings of a gateway with a certificate for this machine."""
    own = authority.sign("gateway", "127.0.0.1")
    return {"ssl_certificate_location": str(own.path), "ssl_key_location": str(own.key)}


def relink(path, target):
    """Have a link name another file, as Kubernetes renews certificates."""
    path.unlink(missing_ok=True)
    path.symlink_to(target)
