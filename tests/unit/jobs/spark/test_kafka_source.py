"""The bounds of a batch, and of a poll of its tasks."""

import pytest

from jobs.spark.kafka_source import request_bounds

MIB = 1024 * 1024


@pytest.mark.parametrize(("largest", "polled"), [(1024, "65536"), (MIB, "64"), (6 * MIB + 8192, "10"), (65 * MIB, "1")])
def test_a_poll_fits_into_the_heap_however_its_records_are_compressed(largest, polled):
    assert request_bounds(50_000, largest) == {"maxOffsetsPerTrigger": "50000", "kafka.max.poll.records": polled}
