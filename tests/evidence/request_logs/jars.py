"""The jars of Kafka's earlier versions, from Maven Central."""

import subprocess
from pathlib import Path

from jobs.spark.installation import jars_folder
from quota.errors import BadInput
from quota.wire.protocol import Protocol
from tests.support.checkout import CHECKOUT

_CURRENT = ".jars/broker"
_EARLIER = CHECKOUT / ".jars/history"
_POM = Path(__file__).with_name("pom.xml")

_PROTOCOLS = {"2.7.2": "3.3.2", "2.8.2": "3.3.2"}
"""Versions whose schemas are not used: those of 2.7 lack listeners, and one of 2.8 has an extra brace.

The requests of these tests are the same in 3.3.
"""


def protocol_of(version: str) -> Protocol:
    """Return Kafka's protocol in a version, for frames that are written by hand."""
    return Protocol.of_jar(jars_of(_PROTOCOLS.get(version, version)))


def current_jars() -> Path:
    """Return the folder of the version that the project runs."""
    return jars_folder(_CURRENT)


def jars_of(version: str) -> Path:
    """Return the folder of a version's jars; Maven copies them there on the first call.

    Raises:
        BadInput: Maven cannot get them.
    """
    if (current_jars() / f"kafka-clients-{version}.jar").exists():
        return current_jars()
    folder = _EARLIER / version
    if not (folder / ".copied").exists():
        arguments = (f"-Dkafka.version={version}", "-DincludeScope=runtime", f"-DoutputDirectory={folder}")
        command = ["mvn", "--quiet", "--batch-mode", "--file", str(_POM), *arguments, "dependency:copy-dependencies"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BadInput(f"Maven has no jars of Kafka {version}: {done.stdout.strip()[-500:]}")
        (folder / ".copied").touch()
    return folder
