"""What tests of more than one folder share: a Spark session, and a broker, each started once."""

import itertools
import os

import hypothesis
import pytest

from jobs.sandbox.broker import at, embedded_broker
from jobs.spark.session import end_session, spark_session
from quota.settings.loading import load_settings
from tests.support.deployments import deployed
from tests.support.jvm import SPARKS

# A busy machine is no failure, and the same code gives the same result. Chance is for those who look for more:
# `pytest --hypothesis-profile=random`, and the long forms (`make conformance`).
hypothesis.settings.register_profile("tests", deadline=None, derandomize=True)
hypothesis.settings.register_profile("random", deadline=None)
hypothesis.settings.load_profile("tests")

os.environ.update(SPARKS)

_NUMBERS = itertools.count()
"""Of deployments: a test's parameters stand in no topic's name."""


@pytest.fixture(scope="session")
def base_settings(tmp_path_factory):
    """Settings of the tests: a folder of their own, nothing of this machine's environment."""
    root = tmp_path_factory.mktemp("deployment")
    return load_settings([f"storage.root={root}", "spark.master=local[2]"], environment={})


@pytest.fixture(scope="session")
def spark(base_settings, tmp_path_factory):
    """The session that the jobs use, with its log in a file."""
    session = spark_session(base_settings, "tests", tmp_path_factory.mktemp("spark") / "spark.log")
    yield session
    end_session(session)


@pytest.fixture(scope="session")
def broker(base_settings):
    """A real broker on a free port."""
    with embedded_broker(base_settings, port=0) as running:
        yield running


@pytest.fixture
def deployment(base_settings, broker, tmp_path, request):
    """Settings of a deployment of this test's own on the broker: topics, checkpoints and tables."""
    name = request.node.name.split("[")[0].replace("test_", "")[:60]
    return deployed(at(base_settings, broker.address), f"{name}-{next(_NUMBERS)}", tmp_path)
