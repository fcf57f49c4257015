"""Unit tests close what they open; Kafka's protocol, from the jar of the broker; the event loop."""

import signal
from pathlib import Path

import pytest

from quota.wire.protocol import Protocol
from tests.support.checkout import CHECKOUT

_UNIT_TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Fail unit tests that leave a file, a socket or a process to the garbage collector."""
    for item in items:
        if _UNIT_TESTS in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("error::ResourceWarning"))


@pytest.fixture(scope="session")
def jars():
    folder = CHECKOUT / ".jars" / "broker"
    assert folder.is_dir(), "run `make jars` first"
    return folder


@pytest.fixture(scope="session")
def protocol(jars):
    return Protocol.of_jar(jars)


@pytest.fixture
def anyio_backend():
    """The event loop of asynchronous tests: that of the standard library."""
    return "asyncio"


@pytest.fixture
def interruptible():
    """Python's own handler of Ctrl-C: that of a session of Spark, in the same process, would kill its JVM."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)
