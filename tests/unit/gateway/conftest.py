"""Kafka's protocol, and a client's channel to a cluster without sockets."""

import pytest

from quota.wire.protocol import Protocol
from tests.support.checkout import CHECKOUT
from tests.unit.gateway.play import Play

_JARS = CHECKOUT / ".jars" / "broker"


@pytest.fixture(scope="session")
def protocol():
    assert _JARS.is_dir(), "run `make jars` first"
    return Protocol.of_jar(_JARS)


@pytest.fixture
def play(protocol):
    """Return a function that opens a channel; see `Play` for its options."""

    def _open(*args, **options):
        return Play(protocol, *args, **options)

    return _open
