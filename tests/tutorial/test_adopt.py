"""`docs/tutorial/adopt.md` runs as printed, on an existing cluster."""

import sys

import pytest

from jobs.sandbox.broker import embedded_broker, free_port
from tests.support.checkout import CHECKOUT
from tests.tutorial.page import Session, steps


@pytest.fixture
def cluster(base_settings, tmp_path):
    """The address of a cluster that knows nothing of this project."""
    with embedded_broker(base_settings, port=0, data=tmp_path / "cluster") as broker:
        yield broker.address


def test_each_command_prints_what_the_page_says(cluster, tmp_path):
    (tmp_path / ".jars").symlink_to(CHECKOUT / ".jars")
    gateway, metrics = free_port(), free_port()
    program = f'mutation-quota() {{ {sys.executable} -u -m jobs "$@"; }}'
    replaced = {
        "export KAFKA_BOOTSTRAP_SERVERS=kafka-1:9092": f"export KAFKA_BOOTSTRAP_SERVERS={cluster}\n{program}",
        "19092=kafka-1:9092": f"{gateway}={cluster}",
        "127.0.0.1:19092": f"127.0.0.1:{gateway}",
        "9599": str(metrics),
    }
    with Session(tmp_path, replaced) as session:
        for step in steps("adopt"):
            session.run(step)
