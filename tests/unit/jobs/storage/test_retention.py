"""What a topic has lost, by the offsets that it has and the position of a query."""

import pytest
from confluent_kafka import TopicPartition

from jobs.storage import retention
from quota.errors import MutationQuotaError
from quota.settings import load_settings


@pytest.fixture
def check(monkeypatch):
    """Return a function that checks a query at offset 50 of a topic whose offsets are looked up in this order."""

    def _check(*ranges, **spark):
        found = iter(ranges)
        monkeypatch.setattr(retention, "offset_range", lambda *_: next(found))
        settings = [f"spark.{name}={value}" for name, value in spark.items()]
        retention.check_gaps(
            load_settings([*settings, "kafka.timeout_seconds=0.5"], environment={}),
            "enforce",
            [TopicPartition("requests", 1, 50)],
        )

    monkeypatch.setattr(retention, "_POLL_SECONDS", 0.0)
    return _check


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_a_partition_that_ends_before_what_was_read_is_refused_whatever_the_settings(check, fail_on_data_loss):
    """Its next records would get ids that earlier decisions have."""
    with pytest.raises(MutationQuotaError, match="requests-1 ends at offset 5, but enforce has read it up to 50: a br"):
        check(*[(0, 5)] * 1_000_000, fail_on_data_loss=fail_on_data_loss)


@pytest.mark.parametrize("ranges", [[(0, 50)], [(50, 50)], [(0, 49), (0, 49), (0, 50)]])
def test_a_partition_that_ends_at_what_was_read_is_complete_also_if_its_new_leader_knows_it_late(check, ranges):
    check(*ranges)


def test_records_that_were_removed_are_named(check, caplog):
    with pytest.raises(MutationQuotaError, match="3 records were removed before enforce read them: requests-1 from"):
        check((53, 60))
    check((53, 60), fail_on_data_loss="false")
    assert "requests-1 from offset 50 to 52; continuing after them" in caplog.text
