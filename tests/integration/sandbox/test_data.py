"""A broker's data, which is prepared without Kafka's tool, and which the next broker continues with."""

import subprocess

from jobs.installation import jars_folder
from jobs.sandbox.broker import Broker, embedded_broker, with_plaintext_cluster
from jobs.sandbox.traffic import set_tenant_quotas
from quota.kafka.quotas.log import read_log
from quota.kafka.quotas.writer import write_record
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from tests.support.deployment import with_sections
from tests.support.factories import request_json
from tests.support.topics import consume_all, produce

_DUMP = "org.apache.kafka.tools.DumpLogSegments"
_CHECKPOINT = "logs/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def test_a_new_broker_has_the_features_that_kafkas_own_tool_gives_it(base_settings, tmp_path):
    """After an upgrade of Kafka's jars: copy the file that the tool writes to jobs/sandbox."""
    jars = jars_folder(base_settings.broker.jars)
    Broker(tmp_path / "ours", jars).prepare()
    theirs = tmp_path / "theirs.properties"
    ours = tmp_path / "ours"
    theirs.write_text((ours / "server.properties").read_text().replace(str(ours), str(tmp_path / "theirs")))
    cluster = "bXV0YXRpb24tcXVvdGEtMQ"
    java(jars, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(theirs))
    assert identity(ours) == {"version": "1", "cluster.id": cluster, "node.id": "1"} == identity(tmp_path / "theirs")
    written = features(jars, ours)
    assert written == features(jars, tmp_path / "theirs")
    assert "FEATURE_LEVEL_RECORD" in "".join(written)


def test_the_next_run_continues_with_the_topics_and_quotas_of_the_last_one_on_another_port(base_settings, tmp_path):
    """The quotas of its tenants are set by the first one only, so that those that somebody has changed stay."""
    settings = with_sections(base_settings, storage={"root": str(tmp_path)})
    with embedded_broker(settings, port=0) as first:
        there = with_plaintext_cluster(settings, first.address)
        set_tenant_quotas(there)
        write_record(there, QuotaRecord(QuotaEntity(None), 7.0))
        produce(there, there.topics.requests, request_json(1, request_id="of the first"))
    with embedded_broker(settings, port=0) as second:
        assert second.port != first.port
        here = with_plaintext_cluster(settings, second.address)
        set_tenant_quotas(here)
        log = read_log(here)
        assert log.timeline.latest(QuotaEntity(None), log.now).quota.rate == 7.0
        assert [request["request_id"] for _, request in consume_all(here, here.topics.requests)] == ["of the first"]


def java(jars, *args):
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", *args]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def identity(data):
    """Return what identifies the broker, but for the folder's own random id."""
    lines = [line for line in (data / "logs/meta.properties").read_text().splitlines() if not line.startswith("#")]
    values = dict(line.split("=", 1) for line in lines)
    assert len(values.pop("directory.id")) == 22
    return values


def features(jars, data):
    """Return the records of the checkpoint."""
    dumped = java(jars, _DUMP, "--cluster-metadata-decoder", "--files", str(data / _CHECKPOINT))
    return [line.partition("payload: ")[2] for line in dumped.splitlines() if "payload: " in line]
