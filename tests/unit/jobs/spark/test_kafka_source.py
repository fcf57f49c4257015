"""The bounds of a batch, and of a poll of its tasks."""

import pytest

from jobs.spark.kafka_source import request_bounds
from quota.kafka.topics.specs import max_record_bytes
from quota.settings import load_settings

MIB = 1024 * 1024


@pytest.mark.parametrize(("largest", "polled"), [(1024, "65536"), (MIB, "64"), (6 * MIB + 8192, "10"), (65 * MIB, "1")])
def test_a_poll_fits_into_the_heap_however_its_records_are_compressed(largest, polled):
    assert request_bounds(50_000, largest) == {"maxOffsetsPerTrigger": "50000", "kafka.max.poll.records": polled}


@pytest.mark.parametrize(("limit", "largest"), [(1024, 1_048_588), (MIB, MIB + 8192), (8 * MIB, 8 * MIB + 8192)])
def test_a_record_over_the_limit_counts_as_the_limit_of_its_topic(limit, largest):
    """A low limit does not make records small: larger ones are read too, and become dead letters."""
    settings = load_settings([f"limits.max_request_bytes={limit}"], environment={})
    assert max_record_bytes(settings) == largest
