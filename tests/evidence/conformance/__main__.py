"""Compares the project with Kafka's own classes, and with a real broker: `make conformance`."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from jobs.sandbox.broker import embedded_broker, with_plaintext_cluster
from jobs.spark.installation import jars_folder
from jobs.spark.session import session
from quota.settings import Settings, load_settings
from quota.wire.schemas import read_schemas
from tests.evidence.command import Notify, run
from tests.evidence.conformance.broker.admin import JavaAdmin
from tests.evidence.conformance.broker.comparison import play_all
from tests.evidence.conformance.broker.job import deciding_job
from tests.evidence.conformance.broker.scenarios import QUICK, SCENARIOS, Scenario
from tests.evidence.conformance.bucket.comparison import MismatchError, compare
from tests.evidence.conformance.bucket.differences import differences
from tests.evidence.conformance.bucket.oracle import CLASSES, kafka_oracle
from tests.evidence.conformance.bucket.sequences import sequences
from tests.evidence.conformance.results import broker_results, bucket_results, wire_results
from tests.evidence.conformance.wire.comparison import Comparison, kinds
from tests.evidence.conformance.wire.oracle import kafka_oracle as wire_oracle
from tests.evidence.machine import versions
from tests.support.deployment import make_deployment
from tests.support.wire.fuzz import fuzz

PAGE = Path(__file__).with_name("page.md.in")

_EARLY = 100
"""At most one sequence in this many may end early; otherwise the omitted steps would matter."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of the comparisons."""

    sequences: int
    """Sequences of the bucket."""
    messages: int
    """Messages of each comparison of the codec."""
    frames: int
    """Damaged frames."""
    scenarios: Sequence[Scenario]
    """Scenarios at a real broker."""


FULL = Size(sequences=8000, messages=60_000, frames=100_000, scenarios=SCENARIOS)
SMOKE = Size(sequences=120, messages=2 * 620, frames=2000, scenarios=QUICK)


def _play(options: Namespace, folder: Path, notify: Notify) -> dict[str, Any]:
    size = SMOKE if options.smoke else FULL
    settings = load_settings([f"storage.root={folder}", "spark.master=local[2]"], environment={})
    jars = jars_folder(settings.broker.jars)
    notify("the codec, and Kafka's generated classes")
    results = compare_codec(jars, size, options.seed)
    notify("the bucket, and Kafka's own")
    results |= compare_buckets(jars, size, options.seed)
    notify("the job, and the broker that it runs on")
    with embedded_broker(settings, port=0) as broker, session(settings, "conformance", folder / "spark.log") as spark:
        deployment = make_deployment(with_plaintext_cluster(settings, broker.address), "conformance", folder)
        return results | compare_with_broker(spark, broker.address, deployment, size)


def compare_codec(jars: Path, size: Size, seed: int) -> dict[str, Any]:
    """Compare the codec with Kafka's generated classes, and read damaged frames."""
    with wire_oracle(jars) as oracle:
        comparison = Comparison(oracle, kinds(read_schemas(jars)), seed)
        comparison.compare_defaults()
        comparison.compare_written(size.messages)
        comparison.compare_made(size.messages)
        comparison.compare_rewritten(size.messages)
        comparison.compare_broken(size.messages)
    return wire_results(comparison.tally, fuzz(jars, seed, size.frames))


def compare_buckets(jars: Path, size: Size, seed: int) -> dict[str, Any]:
    """Compare the bucket with Kafka's own classes."""
    with kafka_oracle(jars) as oracle:
        tally = compare(oracle, sequences(seed, size.sequences))
        cases = differences(oracle)
    if tally.ended_early * _EARLY > max(tally.sequences, _EARLY):
        raise MismatchError(f"{tally.ended_early} of {tally.sequences} sequences ended early")
    about = {
        "seed": seed,
        "kafka": oracle.version,
        "classes": CLASSES,
        "versions": versions("confluent-kafka", "pyspark"),
    }
    return about | bucket_results(tally, cases)


def compare_with_broker(spark: SparkSession, address: str, settings: Settings, size: Size) -> dict[str, Any]:
    """Send the same requests to a broker, and to the job on it."""
    with deciding_job(spark, settings) as job:
        java = JavaAdmin(spark, address)
        rows = list(play_all(size.scenarios, java, address, job))
    return broker_results(rows) | {"java_admin": java.version}


if __name__ == "__main__":
    run("conformance", _play, PAGE, seed=1)
