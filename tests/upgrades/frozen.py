"""Deployments as earlier versions left them, from which later versions must continue.

`python -m tests.upgrades.frozen` freezes a deployment of this version; once for each version of the state.
"""

import json
import tarfile
import tempfile
import threading
from pathlib import Path

from jobs.audit.query import start_audit
from jobs.sandbox.broker import embedded_broker, with_plaintext_cluster
from jobs.spark.queries import await_queries
from jobs.spark.session import spark_session
from jobs.storage.files import DeploymentSession
from quota.kafka.quotas.writer import write_record
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord, ResetRecord
from quota.settings import load_settings
from schemas.buckets import STATE_VERSION
from tests.support.deployment import make_deployment
from tests.support.factories import request_json
from tests.support.operator import enforce_once
from tests.support.topics import end_offsets, produce

FOLDER = Path(__file__).parent
ENDS = "ends.json"
"""File in an archive with the end offsets of each topic."""

PER_YEAR = 365 * 24 * 3600
TOKENS_A_YEAR = 0.01
"""Tokens gained a year while a deployment is frozen."""

QUOTAS = (
    QuotaRecord(QuotaEntity("alice"), TOKENS_A_YEAR / PER_YEAR, controller_mutation_burst=100.0),
    QuotaRecord(QuotaEntity("bob", "app"), TOKENS_A_YEAR / PER_YEAR, controller_mutation_burst=100.0),
    QuotaRecord(QuotaEntity("carol"), 1.0, max_debt_ms=5000),
    QuotaRecord(QuotaEntity("dave"), TOKENS_A_YEAR / PER_YEAR, controller_mutation_burst=100.0),
)
LEFT = {"alice": -20.0, "bob": 40.0, "carol": -5.0, "dave": 40.0}
"""Tokens after the frozen requests; carol's debt is limited to five seconds, and paid back long ago."""


def request(settings, *users):
    """Produce a request for 60 partitions of each user."""
    produce(
        settings, settings.topics.requests, *[request_json(60, user=user, client_id="app") for user in users], key=b"k"
    )


def process(spark, settings):
    """Decide the waiting requests, and audit the decisions."""
    run = DeploymentSession.on(spark, settings)
    enforce_once(run)
    await_queries(threading.Event(), [start_audit(run, once=True)])


def ends(settings):
    """Return the end offsets of each topic by its role."""
    parts = ("requests", "decisions", "dead_letters", "quotas")
    return {part: list(end_offsets(settings, getattr(settings.topics, part)).values()) for part in parts}


def freeze(spark, settings, archive):
    """Run a deployment into debt, and write it to an archive."""
    prepare_topics(settings)
    for record in QUOTAS:
        write_record(settings, record)
    request(settings, "alice", "bob", "carol", "dave")
    process(spark, settings)
    write_record(settings, ResetRecord({"user": "dave"}))
    request(settings, "alice", "dave")
    produce(settings, settings.topics.requests, b"no request")
    process(spark, settings)
    root = Path(settings.storage.root)
    (root / ENDS).write_text(json.dumps(ends(settings)))
    with tarfile.open(archive, "w:gz") as tar:
        for path in sorted(root.rglob("*")):
            # Hadoop's checksums are not needed, and Delta writes its own again.
            if path.is_file() and path.suffix != ".crc" and path.relative_to(root).parts[0] != "broker":
                tar.add(path, str(path.relative_to(root)), filter=_nobody)


def deployment_of(settings, version, folder):
    """Return the settings of the frozen deployment; its checkpoints contain the names of its topics."""
    return make_deployment(settings, f"frozen-{version}", folder)


def _nobody(member):
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def main():
    """Freeze a deployment of this version."""
    with tempfile.TemporaryDirectory() as folder:
        base = load_settings([f"storage.root={folder}/base", "spark.master=local[2]"], environment={})
        with (
            embedded_broker(base, port=0) as broker,
            spark_session(base, "freeze", Path(folder) / "spark.log") as spark,
        ):
            archive = FOLDER / f"state-v{STATE_VERSION}.tar.gz"
            settings = deployment_of(
                with_plaintext_cluster(base, broker.address), STATE_VERSION, Path(folder) / "deployment"
            )
            freeze(spark, settings, archive)
    print(f"{archive}: {archive.stat().st_size} bytes")  # noqa: T201 the result


if __name__ == "__main__":
    main()
