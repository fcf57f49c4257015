"""A worker of the audit whose input ends early: the batch is stored whole when it runs again, each record once."""

import json

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from jobs.audit.query import write_batch
from jobs.audit.tables.preparation import prepare_tables
from jobs.audit.upkeep.schedule import Upkeep
from schemas.kafka import RECORD
from tests.support.factories import DECISION_RECORD
from tests.support.rows import frame, kafka_rows
from tests.support.tables import DAY, names_in, read_table

COUNT = 2500
"""More than the records that Spark sends to a worker at once (`spark.sql.execution.arrow.maxRecordsPerBatch`)."""


def decisions(spark, partition):
    """Return decisions as records of Kafka, on requests of a partition."""
    sources = [{"topic": "mutation-requests", "partition": partition, "offset": offset} for offset in range(COUNT)]
    values = [json.dumps(DECISION_RECORD | {"timestamp": DAY, "source": source}).encode() for source in sources]
    return frame(spark, kafka_rows(values, topic="mutation-decisions", timestamps=[DAY] * COUNT))


def test_a_failure_between_two_parts_of_a_batch_loses_no_record(spark, settings):
    """The second part cannot be read, after the worker has received the first."""
    prepare_tables(settings, names_in(settings))
    upkeep = Upkeep(settings, 0, once=False)
    first, second = (decisions(spark, partition) for partition in (0, 1))
    unreadable = F.raise_error(F.lit("the broker does not respond")).cast("binary").alias("value")
    failing = second.select(*RECORD.names[:-1], unreadable)
    with pytest.raises(PySparkException, match="the broker does not respond"):
        write_batch(settings, upkeep, first.union(failing), 0)
    write_batch(settings, upkeep, first.union(second), 0)
    stored = [(row["source"]["partition"], row["source"]["offset"]) for row in read_table(settings, "decisions")]
    assert sorted(stored) == [(partition, offset) for partition in (0, 1) for offset in range(COUNT)]
