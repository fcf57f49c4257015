"""Writes archives of the classes of Spark's JVMs and of brokers, which then start with two thirds of the work in tests.

`python -m tests.support.class_archive`, as `make test` does once. Spark's is the archive that a job writes when it
ends; another Java, or other jars, ignore them.
"""

import os
import subprocess
import sys
from tempfile import TemporaryDirectory

from jobs.sandbox.broker import JAVA_OPTIONS, embedded_broker, with_plaintext_cluster
from quota.kafka.requests_and_answers import RequestWriter
from quota.settings import load_settings
from tests.support.deployment import as_options
from tests.support.factories import request_json
from tests.support.programs import BROKER_ARCHIVE, CLASS_ARCHIVES, OWN_ARCHIVE, command_line


def write() -> int:
    """Run `enforce --once` on one request; return its exit code."""
    with TemporaryDirectory() as folder:
        settings = load_settings([f"storage.root={folder}"], environment={})
        CLASS_ARCHIVES.mkdir(parents=True, exist_ok=True)
        writing = [*JAVA_OPTIONS, f"-XX:ArchiveClassesAtExit={BROKER_ARCHIVE}"]
        with embedded_broker(settings, port=0, java_options=writing) as broker:
            settings = with_plaintext_cluster(settings, broker.address)
            writer = RequestWriter(settings)
            writer.send_bytes(settings.topics.requests, request_json(1))
            writer.flush(30)
            given = (f"storage.root={folder}", "enforce.with_audit=true", f"spark.class_archives={CLASS_ARCHIVES}")
            patient = {"jobs.spark.session._END_SECONDS": 300.0}  # the JVM writes the archive when it ends
            enforce = command_line("enforce", *as_options(settings, *given), "--once", constants=patient)
            return subprocess.run(enforce, env=os.environ | OWN_ARCHIVE, check=False).returncode


if __name__ == "__main__":
    sys.exit(write())
