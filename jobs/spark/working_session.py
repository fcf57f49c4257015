"""A session for the time of a job or a command."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from jobs.spark.failures import advised
from jobs.spark.session import end_session, spark_session
from quota.settings.loading import Settings


@contextmanager
def working_session(settings: Settings, name: str, log: Path | None = None) -> Iterator[SparkSession]:
    """A session that ends with the block, in which failures are told with what to do."""
    spark = spark_session(settings, f"mutation-quota {name}", log)
    try:
        with advised(settings):
            yield spark
    finally:
        end_session(spark)
