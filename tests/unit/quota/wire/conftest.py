"""The schemas of Kafka's messages, from the jar of the broker."""

import pytest

from quota.wire.schemas import read_schemas


@pytest.fixture(scope="session")
def schemas(jars):
    return read_schemas(jars)
