"""The versions of this program, its dependencies, and its stored data."""

import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from jobs.installation import jars_folder, kafka_protocol
from quota.errors import BadInput
from schemas import versions

_UNKNOWN = "not installed"


def version_lines() -> Iterator[str]:
    """Yield the versions, one a line, without starting a JVM."""
    tables = {
        "decisions": versions.DECISIONS,
        "dead_letters": versions.DEAD_LETTERS,
        "quota_changes": versions.QUOTA_CHANGES,
    }
    lines = {
        "mutation-quota": _package("kafka-mutation-quota"),
        "Python": platform.python_version(),
        "Spark": _package("pyspark"),
        "Delta": _package("delta-spark"),
        "Kafka": f"{_gateway()} (gateway), {_jar('broker')} (broker), {_jar('spark')} (Spark's client)",
        "confluent-kafka": _package("confluent-kafka"),
        "state": versions.STATE,
        "tables": ", ".join(f"{name} {version}" for name, version in tables.items()),
    }
    return (f"{name:15} {value}" for name, value in lines.items())


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return _UNKNOWN


def _gateway() -> str:
    try:
        return kafka_protocol("").version
    except BadInput:
        return _UNKNOWN


def _jar(extra: str) -> str:
    """Return the version of Kafka's clients among the jars of an extra, by the name of the jar."""
    try:
        names = [jar.name for jar in jars_folder("", f"{extra}.jars").iterdir()]
    except BadInput:
        return _UNKNOWN
    matches = (re.fullmatch(r"kafka-clients-(\d[\w.]*)\.jar", name) for name in names)
    return next((match[1] for match in matches if match), _UNKNOWN)
