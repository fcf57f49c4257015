"""Records of the quota topic, and sequences of their changes, compared with a model of twenty lines."""

import json
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadRecord
from quota.planning.plan import ending
from quota.records import codec
from quota.records.entity import QuotaEntity
from quota.records.quota_log import (
    CallbackRecord,
    Callbacks,
    CallbackSetting,
    Cluster,
    Quota,
    QuotaRecord,
    ResetRecord,
    read_quota_log_record,
)
from quota.timeline.change import (
    BucketReset,
    CallbackCancellation,
    CallbackChange,
    ClusterChange,
    QuotaChange,
    is_complete,
    joined,
    to_change,
)
from quota.timeline.timeline import QuotaTimeline

ALICE = QuotaEntity("alice")
NAMES = {"rate": "controller_mutation_rate", "burst": "controller_mutation_burst", "max_debt_ms": "max_debt_ms"}


class Model:
    """What is in force: the changes in the order of their effect; a dict of configs, or None for no quota."""

    def __init__(self):
        self.changes = []  # (moment, is scheduled, is whole, configs), in the order of the log

    def add(self, moment, scheduled, whole, configs):
        self.changes.append((moment, scheduled, whole, configs))

    def cancel(self, moment):
        self.changes = [change for change in self.changes if change[:2] != (moment, True)]

    def in_force(self, at):
        present = None
        for moment, _, whole, configs in sorted(self.changes, key=lambda change: change[0]):
            if moment > at:
                break
            if configs is None or whole:
                present = configs
            elif present is not None or "rate" in configs:
                present = (present or {}) | configs
        return present


RATE, BURST, DEBT = ({name: value} for name, value in (("rate", 1), ("burst", 1), ("max_debt_ms", 1)))
CONFIGS = st.sampled_from([RATE, {"rate": 2}, BURST, {"burst": 2}, {"burst": None}, DEBT, {"rate": 3, "burst": 3}])
PARTS = ("part", "for")
STEP = st.one_of(
    st.tuples(st.sampled_from(["part", "for"]), CONFIGS),
    st.tuples(st.just("whole"), st.sampled_from([{"rate": 4}, {"rate": 5, "burst": 5, "max_debt_ms": 5}])),
    st.sampled_from([("remove", None), ("cancel", None)]),
)
"""What an operator does, after so many ms, at once or for a time so many ms later; `for` ends after three ms."""
STEPS = st.lists(st.tuples(st.integers(0, 2), st.none() | st.integers(1, 4), STEP), min_size=2, max_size=8)
END = 8 * 2 + 4 + 3


def quota_of(configs):
    return None if configs is None else Quota(**{name: value for name, value in configs.items() if value is not None})


def written(steps):
    """Return the log that operators write, one after the other, with the commands; and the model of it."""
    log, model, quotas, now = [], Model(), QuotaTimeline(), 0
    for wait, delay, (kind, configs) in steps:
        now += wait
        moment = now if delay is None else now + delay
        effective_at = None if delay is None else moment
        at = model.in_force(moment)
        if kind == "cancel":
            pending = quotas.scheduled(now)
            if not pending:
                continue
            record = pending[0].record(pending[0].moment, cancelled=True)
            model.cancel(pending[0].moment)
        elif kind in PARTS and at is None and "rate" not in configs:
            continue  # the command rejects an option without a quota
        else:
            # A rate for the time of a scheduled option that then has no quota is set as a whole.
            is_whole = kind not in PARTS or (at is None and (moment, True) in [change[:2] for change in model.changes])
            model.add(moment, delay is not None, is_whole, configs)
            quota = quota_of({**(at or {}), **configs} if kind in PARTS else configs)
            altered = sorted(NAMES[name] for name in configs) if kind in PARTS else [NAMES["rate"]]
            record = structs.replace(
                QuotaRecord.of(ALICE, quota),
                effective_at=effective_at,
                altered_configs=None if kind == "whole" else altered,
            )
            if effective_at is not None:
                record = joined(record, quotas.latest(ALICE, effective_at))
        ends = ending(record, moment + 3, quotas, moment) if kind == "for" else []
        for each in (record, *ends):
            written_as = joined(each, quotas.latest(ALICE, each.effective_at)) if each in ends else each
            log.append((now, written_as.key, codec.encode(written_as)))
            quotas.add(to_change(written_as, now))
            if each in ends:
                end(model, written_as)
        if kind != "cancel":
            assert is_complete(record, now, quotas.latest(ALICE, moment))
    return log, model


def end(model, record):
    """Add a record that ends a change to the model; what it should be is another test's (`test_plan.py`)."""
    if record.cancelled:
        model.cancel(record.effective_at)
        return
    names = record.altered_configs
    configs = None if record.quota is None else {name: getattr(record.quota, name) for name in NAMES}
    if names is not None and configs is not None:
        configs = {name: configs[name] for name in NAMES if NAMES[name] in names}
    if configs is not None or names is None or NAMES["rate"] in names:
        model.add(record.effective_at, True, names is None, configs)


def timeline_of(log):
    """Read records from bytes, as the job does."""
    quotas = QuotaTimeline()
    for timestamp, key, value in log:
        quotas.add(to_change(read_quota_log_record(value, key), timestamp))
    return quotas


def compacted(log, lag_starts):
    """Compact as Kafka's cleaner does: only the last record of each key older than the lag stays."""
    last = {key: index for index, (timestamp, key, _) in enumerate(log) if timestamp < lag_starts}
    return [record for index, record in enumerate(log) if record[0] >= lag_starts or last[record[1]] == index]


ALL = ("whole", {"rate": 5, "burst": 5, "max_debt_ms": 5})


@given(STEPS, st.integers(0, END))
@example([(0, None, ALL), (0, 4, ("remove", None)), (0, 4, ("part", {"rate": 1}))], END)
@example(
    [(0, None, ALL), (0, 4, ("part", BURST)), (1, None, ("remove", None)), (0, 3, ("part", RATE)), (0, None, ALL)], END
)
def test_a_quota_at_any_time_is_what_the_changes_result_in_in_the_order_of_their_effect(steps, lag_starts):
    """By the whole log at any time; by the compacted one, or what a reader remembers, not before the lag starts."""
    log, model = written(steps)
    whole, rest, long_lived = timeline_of(log), timeline_of(compacted(log, lag_starts)), timeline_of(log)
    long_lived.forget(lag_starts)
    for at in range(END + 1):
        expected = quota_of(model.in_force(at))
        limit = whole.resolve("alice", "", at).limit
        assert (limit and limit.quota) == expected
        for timeline in (rest, long_lived) if at >= lag_starts else ():
            limit = timeline.resolve("alice", "", at).limit
            assert (limit and limit.quota) == expected


@pytest.mark.parametrize("effective_at", [None, 100])
def test_changes_by_operators_who_have_not_seen_each_other_survive_compaction(effective_at):
    """One sets the burst, the other the bound on debt; the record that is written after both holds both."""
    log = [
        (0, QuotaRecord(ALICE, 5.0)),
        (1, QuotaRecord(ALICE, 5.0, 9.0, None, effective_at=effective_at, altered_configs=[NAMES["burst"]])),
        (1, QuotaRecord(ALICE, 5.0, None, 7, effective_at=effective_at, altered_configs=["max_debt_ms"])),
    ]
    quotas = QuotaTimeline()
    for timestamp, record in log:
        quotas.add(to_change(record, timestamp))
    version = quotas.latest(ALICE, effective_at or 1)
    assert not is_complete(log[-1][1], 1, version)
    repaired = version.record(effective_at)
    assert is_complete(repaired, 1, version)
    rate = QuotaRecord(ALICE, 6.0, altered_configs=[NAMES["rate"]])
    log = [(timestamp, record.key, codec.encode(record)) for timestamp, record in [*log, (1, repaired), (50, rate)]]
    assert timeline_of(compacted(log, 40)).latest(ALICE, 100).quota == Quota(6.0, 9.0, 7)


A, B = CallbackSetting("x.A", {"m": "1", "n": "1"}), CallbackSetting("x.B", {"k": "1"})


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (CallbackRecord(A), {"m": "1", "n": "2"}),
        (CallbackRecord(CallbackSetting("x.A", {"m": "5"}), altered_configs=["m"]), {"m": "5", "n": "2"}),
        (CallbackRecord(CallbackSetting("x.A", {"m": "1"}), altered_configs=["n"]), {"m": "1", "n": "2"}),
        (CallbackRecord(B), {"k": "1"}),
        (CallbackRecord(A, effective_at=60, cancelled=True), {"m": "1", "n": "2"}),
        (CallbackRecord(A, effective_at=100, altered_configs=["n"], cancelled=True), {"m": "1", "n": "1"}),
    ],
)
def test_a_scheduled_config_of_a_callback_is_changed_in_the_callback_that_is_then_in_force(later, expected):
    """From 60 on m was to be 9; at 100 n becomes 2, as an operator wrote who saw m = 9."""
    quotas = CallbackTimeline(Callbacks("x.A", (), frozenset({"x.B"})))
    for timestamp, record in (
        (0, CallbackRecord(A)),
        (1, CallbackRecord(CallbackSetting("x.A", {"m": "9", "n": "1"}), 60, altered_configs=["m"])),
        (2, CallbackRecord(CallbackSetting("x.A", {"m": "9", "n": "2"}), 100, altered_configs=["n"])),
        (3, CallbackRecord(A, effective_at=60, altered_configs=["m"], cancelled=True)),
        (4, later),
    ):
        quotas.add(to_change(record, timestamp))
    assert quotas.callback(100).configs == expected


def quota_json(entity, rate=5, **fields):
    return json.dumps({"entity": entity, "controller_mutation_rate": rate, **fields}).encode()


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
    assert to_change(cancellation, 90) == CallbackCancellation(90, late=True)
    assert len({callback.key, later.key, cluster.key, cancellation.key}) == 4


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


@given(st.lists(st.tuples(MOMENTS, RECORDS), max_size=8), st.integers(0, LAST + 1), st.data())
def test_requests_not_older_than_the_lag_are_decided_as_by_the_whole_log(changes, lag_starts, data):
    """The quota, its entity, its options and the reset; scheduled changes are cancelled in time and too late."""
    log = []
    scheduled = []
    for timestamp, record in sorted(changes, key=lambda change: change[0]):
        if scheduled and data.draw(st.booleans()):
            record = structs.replace(data.draw(st.sampled_from(scheduled)), cancelled=True)  # noqa: PLW2901
        elif isinstance(record, QuotaRecord) and record.effective_at is not None and timestamp < record.effective_at:
            # As `cancel` does, a cancellation contains the change.
            scheduled = [change for change in scheduled if change.key != record.key] + [record]
        log.append((timestamp, record.key, codec.encode(record)))
    whole, rest, long_lived = timeline_of(log), timeline_of(compacted(log, lag_starts)), timeline_of(log)
    long_lived.forget(lag_starts)
    for at in range(lag_starts, LAST + 2):
        expected = whole.resolve("alice", "app", at)
        for timeline in (rest, long_lived):
            resolution = timeline.resolve("alice", "app", at)
            assert resolution._replace(limit=None) == expected._replace(limit=None)
            assert (resolution.limit and resolution.limit.quota) == (expected.limit and expected.limit.quota)


def test_a_timeline_that_forgets_takes_no_more_than_what_is_left():
    quotas = QuotaTimeline()
    for moment in range(1000):
        quotas.add(QuotaChange(ALICE, Quota(1.0 + moment), moment))
        quotas.add(BucketReset({"user": "alice"}, moment))
    size = len(pickle.dumps(quotas))
    quotas.forget(995)
    assert [quotas.latest(ALICE, at).quota.rate for at in (995, 996, 999)] == [996.0, 997.0, 1000.0]
    assert quotas.resolve("alice", "", 999).reset_at == 999
    assert len(pickle.dumps(quotas)) < size / 50


def test_a_change_cancelled_in_time_never_takes_effect_and_one_cancelled_late_does():
    scheduled = QuotaRecord(ALICE, 7.0, effective_at=100)
    for cancelled_at, holds in ((99, False), (100, True)):
        cancellation = structs.replace(scheduled, cancelled=True)
        log = [(at, record.key, codec.encode(record)) for at, record in ((0, scheduled), (cancelled_at, cancellation))]
        for records in (log, compacted(log, 150)):
            assert (timeline_of(records).resolve("alice", "app", 200).limit is not None) is holds


@pytest.mark.parametrize("cancelled_at", [100, 150])
@pytest.mark.parametrize(
    "cancellation",
    [
        QuotaRecord(ALICE, 7.0, effective_at=100, cancelled=True),
        QuotaRecord(ALICE, None, effective_at=100, cancelled=True),
        CallbackRecord(B, effective_at=100, cancelled=True),
        CallbackRecord(None, effective_at=100, cancelled=True),
    ],
)
def test_a_late_cancellation_of_a_change_that_never_was_changes_nothing_at_any_time(cancelled_at, cancellation):
    """Not for the past either, whose decisions a replay would contradict, and not what took effect at that moment."""
    quotas = CallbackTimeline(Callbacks("x.A", (), frozenset({"x.B"})))
    for timestamp, record in ((100, QuotaRecord(ALICE, 5.0)), (100, CallbackRecord(A)), (cancelled_at, cancellation)):
        quotas.add(to_change(record, timestamp))
    held = [quotas.timeline.latest(ALICE, at).quota for at in (100, 149, 150, 200)]
    assert held == [Quota(5.0)] * 4
    assert [quotas.callback(at) for at in (100, 149, 150, 200)] == [A] * 4
