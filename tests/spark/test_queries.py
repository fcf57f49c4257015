"""The batch in the error of a failed query and in the log of the JVM."""

import pytest

from jobs.spark.failures import QueryFailed
from jobs.spark.queries import check_queries
from tests.support.waiting import until


@pytest.fixture
def fail_at(spark, tmp_path):
    """Return a function that runs a query on the same checkpoint until a batch fails, and returns its error."""

    def run(batch, seen=None):
        def write(_, number):
            if seen is not None:
                seen[number] = spark._jvm.org.apache.logging.log4j.ThreadContext.get("BATCH_ID")  # noqa: SLF001
            if number == batch:
                raise ValueError("no")

        rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
        query = rows.writeStream.queryName("audit").foreachBatch(write).trigger(processingTime="50 milliseconds")
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        until(lambda: not query.isActive)
        with pytest.raises(QueryFailed, match=r"^audit failed: ") as raised:
            check_queries([query])
        return raised.value

    return run


def test_a_failure_names_its_batch_also_after_a_restart(fail_at):
    assert fail_at(1).batch == 1
    assert fail_at(1).batch == 1
    assert fail_at(2).batch == 2


def test_a_query_that_fails_before_its_first_batch_names_none(fail_at, tmp_path):
    assert fail_at(0).batch == 0
    (tmp_path / "checkpoint/offsets/.0.crc").unlink()
    (tmp_path / "checkpoint/offsets/0").write_text("no offsets")
    assert fail_at(0).batch is None


def test_spark_puts_the_batch_into_the_context_of_its_log(fail_at):
    """`conf/log4j2.properties` reads it there."""
    fail_at(1, seen=(seen := {}))
    assert seen == {0: "0", 1: "1"}
