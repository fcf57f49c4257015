"""The shape of the enforcing query, which its cost hangs on."""

import re

import pytest

from jobs.enforce.query import enforce
from jobs.enforce.stages import EnforceConfig
from quota.admission.policy import Policy
from quota.records.quota_log import Window
from schemas.kafka import RECORD
from tests.support.factories import FixedQuotas, request_json, timeline
from tests.support.rows import frame, kafka_rows


@pytest.fixture(scope="module")
def plan(spark, tmp_path_factory):
    """The physical plan of a batch."""
    folder = tmp_path_factory.mktemp("plan")
    frame(spark, kafka_rows([request_json(1)])).write.parquet(str(folder / "in"))
    records = spark.readStream.schema(RECORD).parquet(str(folder / "in"))
    query = (
        enforce(records, FixedQuotas(timeline()), EnforceConfig(Window(), Policy(), "decisions", "dead-letters"))
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query._jsq.explainInternal(False)  # noqa: SLF001 PySpark only prints it


def test_records_are_shuffled_once_and_joined_with_nothing(plan):
    """A further exchange costs a stage in each batch, and a join with a table of quotas 300 ms.

    See docs/decisions/programs/0003-one-stream-through-one-waist.md.
    """
    assert len(re.findall(r"\bExchange\b", plan)) == 1
    assert not re.findall(r"\w*(?:Join|Union)\w*", plan)


def test_the_stateful_stage_has_two_input_columns_and_writes_the_columns_of_answers(plan):
    """A further input column costs about as much per key as the whole stage."""
    (stage,) = [line for line in plan.splitlines() if "FlatMapGroupsInPandasWithState" in line]
    assert re.search(
        r"KeyedStage\(bucket#\d+, request#\d+\)#\d+, \[bucket#\d+\], \[topic#\d+, key#\d+, value#\d+\], ", stage
    )
