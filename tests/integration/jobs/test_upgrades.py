"""The current version continues from the state of earlier versions."""

import json
import re
import tarfile

import pytest

from jobs.sandbox.broker import with_plaintext_cluster
from quota.kafka.quotas.writer import write_record
from quota.kafka.topics.preparation import prepare_topics
from tests.support.tables import read_table
from tests.support.topics import consume_all, produce
from tests.upgrades.frozen import ENDS, FOLDER, LEFT, QUOTAS, deployment_of, ends, process, request

ARCHIVES = sorted(FOLDER.glob("state-v*.tar.gz"))


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.name)
def test_the_jobs_continue_from_the_state_of_an_earlier_version(spark, base_settings, broker, tmp_path, archive):
    """Its checkpoints, buckets and tables, on topics with as many records; the debts go on, and no row is lost."""
    version = re.search(r"\d+", archive.name)[0]
    settings = deployment_of(with_plaintext_cluster(base_settings, broker.address), version, tmp_path)
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    frozen = json.loads((tmp_path / ENDS).read_text())
    kept = len(read_table(settings, "decisions"))
    prepare_topics(settings)
    for record in QUOTAS:
        write_record(settings, record)
    for part, counts in frozen.items():
        there = ends(settings)[part]
        for partition, count in enumerate(counts):
            missing = [b"{}"] * (count - there[partition])
            produce(settings, getattr(settings.topics, part), *missing, partition=partition)
    assert ends(settings) == frozen

    request(settings, *LEFT)
    process(spark, settings)

    values = [decision for _, decision in consume_all(settings, settings.topics.decisions) if decision]
    after = {decision["user"]: (decision["tokens_before"], decision["outcome"]) for decision in values}
    assert {user: round(tokens) for user, (tokens, _) in after.items()} == {**LEFT, "carol": 11}
    assert {user for user, (_, outcome) in after.items() if outcome == "REJECTED"} == {"alice"}
    rows = read_table(settings, "decisions")
    assert len(rows) == kept + len(LEFT)
    assert sorted(row["user"] for row in rows) == sorted([*LEFT, "alice", "dave", *LEFT])
    (letter,) = read_table(settings, "dead_letters")
    assert letter["value"] == "no request"
