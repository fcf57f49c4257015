"""Reading the records of the quota topic."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from quota.errors import BadRecord
from quota.records import codec
from quota.records.callback import CallbackSetting
from quota.records.entity import QuotaEntity
from quota.records.quota import Quota
from quota.records.quota_log import Cluster, QuotaRecord, ResetRecord, read_quota_log_record
from quota.timeline.change import CallbackCancellation, CallbackChange, ClusterChange, QuotaChange, to_change
from quota.timeline.timeline import QuotaTimeline


def quota_json(entity, rate=5, **fields):
    return json.dumps({"entity": entity, "controller_mutation_rate": rate, **fields}).encode()


@pytest.mark.parametrize(
    ("entity", "expected"),
    [
        ({"user": "alice"}, QuotaEntity("alice")),
        ({"user": None}, QuotaEntity(None)),
        ({"user": "alice", "client-id": None}, QuotaEntity("alice", None)),
        ({"client-id": "app"}, QuotaEntity(client_id="app")),
    ],
)
def test_a_part_is_a_name_or_the_default_or_absent(entity, expected):
    record = read_quota_log_record(quota_json(entity))
    assert (record.entity, record.controller_mutation_rate) == (expected, 5.0)


def test_a_tombstone_removes_the_quota_of_its_key():
    record = read_quota_log_record(None, b'{"user": "alice"}')
    assert (record.entity, record.controller_mutation_rate) == (QuotaEntity("alice"), None)


@pytest.mark.parametrize(
    ("effective_at", "moment"), [({}, 100), ({"effective_at": 50}, 100), ({"effective_at": 150}, 150)]
)
def test_a_change_takes_effect_at_its_timestamp_or_a_later_time(effective_at, moment):
    record = read_quota_log_record(quota_json({"user": "alice"}, **effective_at))
    assert to_change(record, 100) == QuotaChange(QuotaEntity("alice"), Quota(5.0), moment)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (quota_json({"user": "a"}, 0), "controller_mutation_rate: expected float > 0.0 (value: 0)"),
        (quota_json({"user": "a"}, float("inf")), "value: not JSON"),
        (b'{"entity": {"user": "a"}}', "controller_mutation_rate: missing"),
        (quota_json({}), "entity: an entity needs a user, a client-id or both"),
        (
            b'{"entity": {"user": "a"}, "bucket": {"user": "a"}}',
            "bucket: a record must have only one of entity, bucket, callback",
        ),
        (b'{"callback": {"class": "a.B", "configs": {"n": 5}}}', "callback.configs[...]: expected str, got int"),
        (b'{"cluster": {"topics": {"t": [-1]}}}', "cluster.topics[...][0]: expected int >= 0"),
        (quota_json({"user": ""}), "entity.user: expected str of length >= 1"),
        (quota_json({"usr": "a"}), "entity: object contains unknown field usr"),
    ],
)
def test_an_invalid_quota_is_reported_with_its_field_and_value(value, error):
    with pytest.raises(BadRecord) as raised:
        read_quota_log_record(value)
    assert str(raised.value).startswith(error)


def test_a_callback_and_a_cluster_are_records_too():
    """Each has one key, so that compaction keeps the last; a scheduled callback has a separate one."""
    callback = read_quota_log_record(b'{"callback": {"class": "a.B", "configs": {"n": "5"}}, "altered_by": "ann"}')
    assert to_change(callback, 7) == CallbackChange(CallbackSetting("a.B", {"n": "5"}), 7)
    later = read_quota_log_record(b'{"callback": null, "effective_at": 90}')
    assert to_change(later, 7) == CallbackChange(None, 90)
    cluster = read_quota_log_record(b'{"cluster": {"topics": {"t": [1, null]}}}')
    assert to_change(cluster, 7) == ClusterChange(Cluster({"t": [1, None]}), 7)
    cancellation = read_quota_log_record(b'{"callback": null, "effective_at": 90, "cancelled": true}')
    assert to_change(cancellation, 89) == CallbackCancellation(90)
    assert to_change(cancellation, 90) == CallbackChange(None, 90)
    assert len({callback.key, later.key, cluster.key}) == 3
    assert cancellation.key == later.key


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
