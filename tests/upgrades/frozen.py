"""Deployments as programs of earlier versions left them, for later ones to go on from.

`python -m tests.upgrades.frozen` freezes what this program leaves; once for each version of the state.
"""

import json
import tarfile
import tempfile
import threading
from pathlib import Path

from jobs.audit.query import start_audit
from jobs.enforce.query import start_enforce
from jobs.sandbox.broker import at, embedded_broker
from jobs.spark.queries import run_until
from jobs.spark.session import end_session, spark_session
from jobs.storage.checkpoint import FirstBatch
from jobs.storage.files import Files
from quota.kafka.quota_writer import write_record
from quota.kafka.topics.specs import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord, ResetRecord
from quota.settings.loading import load_settings
from schemas.buckets import STATE_VERSION
from tests.support.deployments import deployed
from tests.support.factories import request_json
from tests.support.records import ends_of, produce

FOLDER = Path(__file__).parent
ENDS = "ends.json"
"""In an archive: how many records each partition of each topic held."""

PER_YEAR = 365 * 24 * 3600
TOKENS_A_YEAR = 0.01
"""What is paid back of a debt while it is frozen."""

QUOTAS = (
    QuotaRecord(QuotaEntity("alice"), TOKENS_A_YEAR / PER_YEAR, controller_mutation_burst=100.0),
    QuotaRecord(QuotaEntity("bob", "app"), TOKENS_A_YEAR / PER_YEAR, controller_mutation_burst=100.0),
    QuotaRecord(QuotaEntity("carol"), 1.0, max_debt_ms=5000),
    QuotaRecord(QuotaEntity("dave"), TOKENS_A_YEAR / PER_YEAR, controller_mutation_burst=100.0),
)
LEFT = {"alice": -20.0, "bob": 40.0, "carol": -5.0, "dave": 40.0}
"""The tokens that the frozen requests leave; carol's debt is bound to five seconds, and paid back long since."""


def ask(settings, *users):
    """A request for 60 partitions by each."""
    produce(
        settings, settings.topics.requests, *[request_json(60, user=user, client_id="app") for user in users], key=b"k"
    )


def work(spark, settings):
    """Decide and keep what is there."""
    query = start_enforce(spark, settings, once=True)
    run_until(threading.Event(), [query], FirstBatch(Files(spark, settings), query, STATE_VERSION).look)
    run_until(threading.Event(), [start_audit(spark, settings, once=True)])


def ends(settings):
    """How many records each partition of each topic holds, by the part that the topic plays."""
    parts = ("requests", "decisions", "dead_letters", "quotas")
    return {part: list(ends_of(settings, getattr(settings.topics, part)).values()) for part in parts}


def freeze(spark, settings, archive):
    """Leave a deployment with buckets in debt behind, and put it away."""
    prepare_topics(settings)
    for record in QUOTAS:
        write_record(settings, record)
    ask(settings, "alice", "bob", "carol", "dave")
    work(spark, settings)
    write_record(settings, ResetRecord({"user": "dave"}))
    ask(settings, "alice", "dave")
    produce(settings, settings.topics.requests, b"no request")
    work(spark, settings)
    root = Path(settings.storage.root)
    (root / ENDS).write_text(json.dumps(ends(settings)))
    with tarfile.open(archive, "w:gz") as tar:
        for path in sorted(root.rglob("*")):
            # Hadoop's checksums are not missed, and Delta's are made anew.
            if path.is_file() and path.suffix != ".crc" and path.relative_to(root).parts[0] != "broker":
                tar.add(path, str(path.relative_to(root)), filter=_nobody)


def deployment_of(settings, version, folder):
    """The deployment that was frozen: its checkpoints know its topics by their names."""
    return deployed(settings, f"frozen-{version}", folder)


def archive_of(version, folder=FOLDER):
    """Where it is put away."""
    return folder / f"state-v{version}.tar.gz"


def _nobody(member):
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def main():
    """Freeze what this program leaves."""
    with tempfile.TemporaryDirectory() as folder:
        base = load_settings([f"storage.root={folder}/base", "spark.master=local[2]"], environment={})
        with embedded_broker(base, port=0) as broker:
            spark = spark_session(base, "freeze", Path(folder) / "spark.log")
            archive = archive_of(STATE_VERSION)
            settings = deployment_of(at(base, broker.address), STATE_VERSION, Path(folder) / "deployment")
            freeze(spark, settings, archive)
            end_session(spark)
    print(f"{archive}: {archive.stat().st_size} bytes")  # noqa: T201 what was made


if __name__ == "__main__":
    main()
