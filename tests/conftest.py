"""Fixtures of all tests: settings, a Spark session and a broker, each started once, and deployments on the broker."""

import itertools
import os
import signal
from collections import Counter

import hypothesis
import pytest

from jobs.installation import jars_folder
from jobs.sandbox import broker as sandbox
from jobs.sandbox.broker import Broker, with_plaintext_cluster
from jobs.spark.session import spark_session
from quota.kafka.topics.preparation import prepare_topics
from quota.settings import load_settings
from tests.support.broker import OTHER_JARS, secure_broker
from tests.support.deployment import make_deployment, with_sections
from tests.support.programs import BROKER_ARCHIVE, SPARK_ENVIRONMENT, with_archive

# No deadline, because a busy machine is no failure, and no chance, so that the same code gives the same result; the
# same examples again and again find nothing new, so there are few. `make nightly` draws others.
hypothesis.settings.register_profile("tests", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.register_profile("nightly", deadline=None, max_examples=300)
hypothesis.settings.load_profile("tests")

os.environ.update(SPARK_ENVIRONMENT)
sandbox.JAVA_OPTIONS = (*sandbox.JAVA_OPTIONS, *with_archive(BROKER_ARCHIVE))

# In the background of a shell Ctrl-C is ignored, also by the commands that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.support.budget"]

_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",  # fifty tasks a commit are too many for small tables
}
"""The properties with which Spark reads the tables; no job does."""

_NUMBERS = itertools.count()
"""Numbers of deployments: the name of a topic does not contain the parameters of a test."""


def pytest_terminal_summary(terminalreporter):
    """Print each reason why tests were skipped once, with their number; a reason says what to install."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, tests in reasons.most_common():
        terminalreporter.write_line(f"{tests} skipped: {reason}")


@pytest.fixture(scope="session")
def base_settings(tmp_path_factory):
    """Settings with a storage root of the tests, without this machine's environment."""
    root = tmp_path_factory.mktemp("deployment")
    jars = [f"broker.jars={OTHER_JARS}"] if OTHER_JARS else []
    return load_settings([f"storage.root={root}", "spark.master=local[2]", *jars], environment={})


@pytest.fixture(scope="session")
def spark(base_settings, tmp_path_factory):
    """The session of the jobs, with its log in a file, and with Delta as whoever queries the tables has it."""
    settings = with_sections(base_settings, spark={"conf": base_settings.spark.conf | _DELTA})
    with spark_session(settings, "tests", tmp_path_factory.mktemp("spark") / "spark.log") as started:
        yield started


@pytest.fixture(scope="session")
def secured(base_settings):
    """A broker with all listeners, and its certificates."""
    with secure_broker(base_settings.storage.local_folder("cluster"), base_settings.broker.jars) as running:
        prepare_topics(with_plaintext_cluster(base_settings, running.broker.address))
        yield running


@pytest.fixture(scope="session")
def broker(secured):
    """That broker, as it is reached without authentication."""
    return secured.broker


@pytest.fixture
def another_broker(base_settings, tmp_path_factory):
    """A broker of the test, which it may stop."""
    with Broker(tmp_path_factory.mktemp("another-broker"), jars_folder(base_settings.broker.jars)) as running:
        yield running


@pytest.fixture
def deployment(base_settings, broker, tmp_path, request):
    """Settings of a deployment of this test on the broker: topics, checkpoints and tables."""
    name = request.node.name.split("[")[0].replace("test_", "")[:60]
    return make_deployment(with_plaintext_cluster(base_settings, broker.address), f"{name}-{next(_NUMBERS)}", tmp_path)
