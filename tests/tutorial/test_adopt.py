"""`docs/tutorial/adopt.md` runs as printed, on an existing cluster."""

import sys

import pytest

from jobs.sandbox.broker import Broker, free_port
from jobs.spark.installation import jars_folder
from tests.support.checkout import CHECKOUT
from tests.tutorial.page import Session, steps


@pytest.fixture
def cluster(base_settings, tmp_path):
    """The address of a cluster that knows nothing of this project."""
    with Broker(tmp_path / "cluster", jars_folder(base_settings.broker.jars)) as broker:
        yield broker.address


@pytest.mark.nightly  # its commands are parsed with those of all pages, and its parts are tested each by its own
@pytest.mark.timeout(900)
def test_each_command_prints_what_the_page_says(cluster, tmp_path):
    (tmp_path / ".jars").symlink_to(CHECKOUT / ".jars")
    gateway, metrics = free_port(), free_port()
    program = f'mutation-quota() {{ {sys.executable} -u -m jobs "$@"; }}'
    replaced = {
        "cat > mutation-quota.toml": f"{program}\ncat > mutation-quota.toml",
        'bootstrap_servers = "kafka-1:9092"': f'bootstrap_servers = "{cluster}"',
        "19092=kafka-1:9092": f"{gateway}={cluster}",
        "127.0.0.1:19092": f"127.0.0.1:{gateway}",
        "9599": str(metrics),
        # The first decision of a young JVM may take longer than the default on a busy machine.
        "metrics.port=0 gateway": "metrics.port=0 --set gateway.decision_timeout_seconds=60 gateway",
    }
    with Session(tmp_path, replaced) as session:
        for step in steps("adopt"):
            session.run(step)
