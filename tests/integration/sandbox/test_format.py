"""A new broker's data, which is prepared without Kafka's tool."""

import subprocess

from jobs.sandbox.broker import Broker
from jobs.spark.installation import jars_folder

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
    assert features(jars, ours) == features(jars, tmp_path / "theirs")
    assert "FEATURE_LEVEL_RECORD" in "".join(features(jars, ours))


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
