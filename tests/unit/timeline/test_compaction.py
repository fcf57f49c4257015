"""The quota topic after Kafka has compacted it."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from quota.records import codec
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord, ResetRecord, read_quota_log_record
from quota.timeline.change import to_change
from quota.timeline.timeline import QuotaTimeline

ALICE = QuotaEntity("alice")
LAST = 12
MOMENTS = st.integers(0, LAST)
LATER = st.none() | MOMENTS
RECORDS = st.one_of(
    st.builds(
        QuotaRecord,
        st.sampled_from([ALICE, QuotaEntity(None), QuotaEntity("alice", "app"), QuotaEntity("alice", None)]),
        st.none() | st.sampled_from([1.0, 2.0, 5.0]),
        max_debt_ms=st.none() | st.just(9),
        effective_at=LATER,
    ),
    st.builds(ResetRecord, st.sampled_from([{"user": "alice"}, {"client-id": "app"}]), LATER),
)


def timeline_of(log):
    """Read records from bytes, as the job does."""
    timeline = QuotaTimeline()
    for timestamp, key, value in log:
        timeline.add(to_change(read_quota_log_record(value, key), timestamp))
    return timeline


def compacted(log, lag_starts):
    """Compact as Kafka's cleaner does: only the last record of each key older than the lag stays."""
    last = {key: index for index, (timestamp, key, _) in enumerate(log) if timestamp < lag_starts}
    return [
        (timestamp, key, value)
        for index, (timestamp, key, value) in enumerate(log)
        if timestamp >= lag_starts or last[key] == index
    ]


@given(st.lists(st.tuples(MOMENTS, RECORDS), max_size=8), st.integers(0, LAST + 1), st.data())
def test_requests_not_older_than_the_lag_are_decided_as_by_the_whole_log(changes, lag_starts, data):
    """The quota, its entity, its options and the reset; scheduled changes are cancelled in time and too late."""
    log = []
    scheduled = []
    for timestamp, record in sorted(changes, key=lambda change: change[0]):
        if scheduled and data.draw(st.booleans()):
            record = structs.replace(data.draw(st.sampled_from(scheduled)), cancelled=True)  # noqa: PLW2901
        elif isinstance(record, QuotaRecord) and record.effective_at is not None and timestamp < record.effective_at:
            # As `cancel` does, a cancellation contains the change of its key.
            scheduled = [each for each in scheduled if each.key != record.key] + [record]
        log.append((timestamp, record.key, codec.encode(record)))
    whole, rest = timeline_of(log), timeline_of(compacted(log, lag_starts))
    for at in range(lag_starts, LAST + 2):
        expected, found = whole.resolve("alice", "app", at), rest.resolve("alice", "app", at)
        assert found._replace(limit=None) == expected._replace(limit=None)
        assert (found.limit and found.limit.quota) == (expected.limit and expected.limit.quota)


def test_a_change_cancelled_in_time_never_takes_effect_and_one_cancelled_late_does():
    scheduled = QuotaRecord(ALICE, 7.0, effective_at=100)
    for cancelled_at, holds in ((99, False), (100, True)):
        cancellation = structs.replace(scheduled, cancelled=True)
        log = [(at, each.key, codec.encode(each)) for at, each in ((0, scheduled), (cancelled_at, cancellation))]
        for found in (log, compacted(log, 150)):
            assert (timeline_of(found).resolve("alice", "app", 200).limit is not None) is holds
