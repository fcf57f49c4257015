"""Kafka's protocol, from the jar of the broker."""

import pytest

from quota.wire.protocol import Protocol
from quota.wire.schemas import read_schemas
from tests.support.checkout import CHECKOUT

_JARS = CHECKOUT / ".jars" / "broker"


@pytest.fixture(scope="session")
def jars():
    assert _JARS.is_dir(), "run `make jars` first"
    return _JARS


@pytest.fixture(scope="session")
def schemas(jars):
    return read_schemas(jars)


@pytest.fixture(scope="session")
def protocol(jars):
    return Protocol.of_jar(jars)
