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


def relink(path, target):
    """Have a link name another file, as Kubernetes renews certificates."""
    path.unlink(missing_ok=True)
    path.symlink_to(target)
