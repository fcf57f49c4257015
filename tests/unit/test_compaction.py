"""What the quota topic still tells after Kafka has compacted it."""

from hypothesis import given
from hypothesis import strategies as st

from quota import codec
from quota.change import CancelRecord, QuotaRecord, ResetRecord, change_of, read_log_record
from quota.entity import QuotaEntity
from quota.timeline import QuotaTimeline

ALICE = QuotaEntity("alice")
MOMENTS = st.integers(0, 100)
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
    st.builds(CancelRecord, st.just(ALICE), MOMENTS),
)


def timeline_of(log):
    """As the job reads it: from bytes."""
    timeline = QuotaTimeline()
    for timestamp, key, value in log:
        timeline.add(change_of(read_log_record(value, key), timestamp))
    return timeline


def compacted(log, lag_starts, *, tombstones_too):
    """As Kafka's cleaner leaves it: of what is older than the lag the last of each key, later also no tombstones."""
    last = {key: index for index, (timestamp, key, _) in enumerate(log) if timestamp < lag_starts}
    return [
        (timestamp, key, value)
        for index, (timestamp, key, value) in enumerate(log)
        if timestamp >= lag_starts or (last[key] == index and not (tombstones_too and value is None))
    ]


@given(st.lists(st.tuples(MOMENTS, RECORDS), max_size=12), st.integers(0, 101), st.booleans())
def test_requests_that_are_not_older_than_the_lag_are_judged_as_by_the_whole_log(changes, lag_starts, tombstones_too):
    """The quota, its entity, its options and the reset; `since` where the quota has changed within the lag."""
    log = [
        (timestamp, record.key, None if isinstance(record, CancelRecord) else codec.encode(record))
        for timestamp, record in sorted(changes, key=lambda change: change[0])
    ]
    whole, rest = timeline_of(log), timeline_of(compacted(log, lag_starts, tombstones_too=tombstones_too))
    for at in range(lag_starts, 102):
        expected, found = whole.resolve("alice", "app", at), rest.resolve("alice", "app", at)
        assert found._replace(limit=None) == expected._replace(limit=None)
        assert (found.limit and found.limit.quota) == (expected.limit and expected.limit.quota)


def test_a_change_for_later_leaves_the_quota_in_force_its_key():
    """Under one key, compaction would leave alice without a quota until 10,000."""
    log = [
        (timestamp, record.key, codec.encode(record))
        for timestamp, record in ((0, QuotaRecord(ALICE, 5.0)), (1, QuotaRecord(ALICE, 7.0, effective_at=10_000)))
    ]
    rest = timeline_of(compacted(log, 100, tombstones_too=True))
    assert [rest.resolve("alice", "app", at).limit.quota.rate for at in (100, 10_000)] == [5.0, 7.0]


def test_a_change_taken_back_in_time_never_holds_and_one_too_late_has_held():
    scheduled = QuotaRecord(ALICE, 7.0, effective_at=100)
    for cancelled_at, holds in ((99, False), (100, True)):
        changes = ((0, scheduled.key, codec.encode(scheduled)), (cancelled_at, CancelRecord(ALICE, 100).key, None))
        assert (timeline_of(changes).resolve("alice", "app", 200).limit is not None) is holds
