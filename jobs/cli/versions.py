"""The versions of this program, its dependencies, and its stored data."""

import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from jobs.spark.installation import jars_folder
from quota.errors import BadInput
from quota.settings import Settings

_UNKNOWN = "not installed"


def version_lines() -> Iterator[str]:
    """Yield the versions, one a line, without starting a JVM."""
    from schemas import buckets, dead_letters, decisions, quota_changes

    settings = Settings()
    tables = {"decisions": decisions, "dead_letters": dead_letters, "quota_changes": quota_changes}
    versions = {
        "mutation-quota": _package("kafka-mutation-quota"),
        "Python": platform.python_version(),
        "Spark": _package("pyspark"),
        "Delta": _package("delta-spark"),
        "Kafka": f"{_jar(settings.broker.jars)} (broker and gateway), {_jar(settings.spark.jars)} (Spark's client)",
        "confluent-kafka": _package("confluent-kafka"),
        "state": buckets.STATE_VERSION,
        "tables": ", ".join(f"{name} {table.VERSION}" for name, table in tables.items()),
    }
    return (f"{name:15} {value}" for name, value in versions.items())


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return _UNKNOWN


def _jar(setting: str) -> str:
    """Return the version of Kafka's clients in a folder of jars, by the name of the jar."""
    try:
        names = [each.name for each in jars_folder(setting).iterdir()]
    except BadInput:
        return _UNKNOWN
    found = (re.fullmatch(r"kafka-clients-(\d[\w.]*)\.jar", name) for name in names)
    return next((each[1] for each in found if each), _UNKNOWN)
