"""A run of queries on the storage root of a deployment."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from pyspark.sql import SparkSession

from jobs.storage.files import open_files
from jobs.storage.stored_files import Files
from quota.settings import Settings


@dataclass(frozen=True, slots=True)
class Run:
    """What queries are started with."""

    spark: SparkSession
    settings: Settings
    files: Files
    """The files of the storage root."""

    @classmethod
    def on(cls, spark: SparkSession, settings: Settings) -> Self:
        """Return a run that connects to the storage root for the rest of the session."""
        return cls(spark, settings, open_files(spark, settings))


@contextmanager
def run_on(spark: SparkSession, settings: Settings) -> Iterator[Run]:
    """Provide a run whose connection to the storage root is closed at the end of the block."""
    run = Run.on(spark, settings)
    try:
        yield run
    finally:
        run.files.close()
