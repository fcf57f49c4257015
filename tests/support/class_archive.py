"""Writes the archive of the classes that Spark's JVMs load in tests, which then start with two thirds of the work.

`python -m tests.support.class_archive`, as `make test` does once. Another Java, or other jars, ignore the archive.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from jobs.sandbox.broker import embedded_broker, with_plaintext_cluster
from quota.kafka.requests import RequestWriter
from quota.settings import load_settings
from tests.support.deployment import as_options
from tests.support.factories import request_json
from tests.support.programs import CLASS_ARCHIVE, JVM_OPTIONS, NO_ARCHIVE_LOG, command_line


def write(archive: Path) -> int:
    """Run `enforce --once` on one request; return its exit code."""
    archive.unlink(missing_ok=True)
    written = archive.with_suffix(".new")
    environment = os.environ | {
        "SPARK_SUBMIT_OPTS": f'{JVM_OPTIONS} "-XX:ArchiveClassesAtExit={written}" {NO_ARCHIVE_LOG}'
    }
    with TemporaryDirectory() as folder:
        settings = load_settings([f"storage.root={folder}"], environment={})
        with embedded_broker(settings, port=0) as broker:
            settings = with_plaintext_cluster(settings, broker.address)
            writer = RequestWriter(settings)
            writer.send_bytes(settings.topics.requests, request_json(1))
            writer.flush(30)
            options = ("--set", f"storage.root={folder}", "--set", "enforce.with_audit=true")
            patient = {"jobs.spark.session._END_SECONDS": 300.0}  # the JVM writes the archive when it ends
            enforce = command_line("enforce", *as_options(settings), *options, "--once", constants=patient)
            done = subprocess.run(enforce, env=environment, check=False)
    if done.returncode == 0:
        written.rename(archive)
    return done.returncode


if __name__ == "__main__":
    sys.exit(write(CLASS_ARCHIVE))
