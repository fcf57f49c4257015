"""Old quota changes are removed, and all quotas from the first retained date stay exactly the same."""

import json
from datetime import date

import hypothesis
from hypothesis import given
from hypothesis import strategies as st

from jobs.audit.quota_changes import read_quota_log
from jobs.audit.tables.opening import TableStore
from jobs.audit.tables.specs import QUOTA_CHANGES
from jobs.audit.upkeep.superseded import count_superseded, delete_superseded
from quota.callbacks.timeline import CallbackTimeline
from quota.timeline.change import to_change
from tests.support.rows import kafka_rows
from tests.support.tables import DAY, audit_records

HOUR = 3_600_000
FIRST_KEPT = date(2026, 11, 21)
"""The date of `DAY`."""

ALICE = {"entity": {"user": "alice"}}
GROUP = "quota.callbacks.groups.GroupQuotaCallback"


def write(settings, *records):
    """Write records of the quota topic, as (hours after `DAY`, fields)."""
    values = [json.dumps(fields).encode() for _, fields in records]
    times = [DAY + hours * HOUR for hours, _ in records]
    audit_records(settings, kafka_rows(values, topic="mutation-quotas", timestamps=times))


def table(settings):
    return TableStore.of(settings).open(QUOTA_CHANGES)


def delete(settings):
    return delete_superseded(table(settings), FIRST_KEPT)


def kept(settings):
    """Return the offsets that are left."""
    return [each.offset for each in read_quota_log(settings, DAY * 2, with_clusters=True)]


def test_the_last_change_of_each_entity_is_kept(settings):
    write(
        settings,
        (-80, ALICE | {"controller_mutation_rate": 1}),
        (-70, {"entity": {"user": "bob"}, "controller_mutation_rate": 2}),
        (-60, ALICE | {"controller_mutation_rate": 3}),
        (-50, ALICE | {"controller_mutation_rate": None}),
        (1, ALICE | {"controller_mutation_rate": 4}),
        (2, ALICE | {"controller_mutation_rate": 5}),
    )
    assert count_superseded(table(settings), FIRST_KEPT) == 2
    assert delete(settings) == 2
    assert kept(settings) == [1, 3, 4, 5]


def test_a_second_run_finds_nothing_to_do(settings):
    write(settings, (-80, ALICE | {"controller_mutation_rate": 1}), (-70, ALICE | {"controller_mutation_rate": 2}))
    delete(settings)
    version = table(settings).version()
    assert (delete(settings), table(settings).version()) == (0, version)


def test_scheduled_changes_their_cancellations_and_other_kinds_have_their_own_keys(settings):
    later = DAY + 5 * HOUR
    write(
        settings,
        (-80, ALICE | {"controller_mutation_rate": 1}),
        (-79, ALICE | {"controller_mutation_rate": 2, "effective_at": later}),
        (-78, ALICE | {"controller_mutation_rate": 2, "effective_at": later, "cancelled": True}),
        (-77, {"bucket": {"user": "alice"}}),
        (-76, {"bucket": {"user": "alice"}}),
        (-75, {"callback": {"class": GROUP, "configs": {"a": "1"}}}),
        (-74, {"callback": None}),
        (-73, {"cluster": {"topics": {"t": [1]}}}),
        (-72, {"cluster": {"topics": {"t": [2]}}}),
    )
    assert delete(settings) == 3
    assert kept(settings) == [0, 1, 2, 4, 6, 8]


def test_a_late_cancellation_does_not_replace_a_newer_change(settings):
    due = DAY - 78 * HOUR
    write(
        settings,
        (-80, ALICE | {"controller_mutation_rate": 5}),
        (-79, ALICE | {"controller_mutation_rate": 7, "effective_at": due}),
        (-77, ALICE | {"controller_mutation_rate": 9}),
        (-76, ALICE | {"controller_mutation_rate": 7, "effective_at": due, "cancelled": True}),
    )
    before = _quotas(settings)
    assert before["alice", 0].rate == 9
    delete(settings)
    assert _quotas(settings) == before


def test_concurrent_changes_of_parts_by_two_authors_both_count(settings):
    """The later record has a rate that was out of date."""
    burst = {"controller_mutation_burst": 50, "altered_configs": ["controller_mutation_burst"]}
    write(
        settings,
        (-80, ALICE | {"controller_mutation_rate": 5, "controller_mutation_burst": 100}),
        (-79, ALICE | {"controller_mutation_rate": 10, "altered_configs": ["controller_mutation_rate"]}),
        (-78, ALICE | {"controller_mutation_rate": 5} | burst),
    )
    before = _quotas(settings)
    assert (before["alice", 0].rate, before["alice", 0].burst) == (10, 50)
    delete(settings)
    assert _quotas(settings) == before


def test_sequential_changes_of_parts_replace_each_other(settings):
    part = {"altered_configs": ["controller_mutation_rate"]}
    write(settings, *((hours, ALICE | {"controller_mutation_rate": -hours} | part) for hours in (-80, -70, -60)))
    assert delete(settings) == 2
    assert kept(settings) == [2]


_RECORDS = st.one_of(
    st.builds(
        lambda user, rate, burst, ahead, cancelled, altered: (
            {"entity": {"user": user}, "controller_mutation_rate": rate}
            | ({"controller_mutation_burst": burst} if burst else {})
            | ({"effective_at": DAY + ahead * HOUR, "cancelled": cancelled} if ahead is not None else {})
            | ({"altered_configs": altered} if altered else {})
        ),
        st.sampled_from(["alice", "bob", None]),
        st.sampled_from([None, 1, 2, 3]),
        st.sampled_from([None, 50, 60]),
        st.none() | st.none() | st.sampled_from([-60, -40, -20, 10, 30]),
        st.booleans(),
        st.none() | st.lists(st.sampled_from(["controller_mutation_rate", "controller_mutation_burst"]), min_size=1),
    ),
    st.just({"callback": None}),
)


@hypothesis.settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(-72, 20), _RECORDS), min_size=1, max_size=12))
def test_quotas_of_the_retained_days_are_the_same(base, tmp_path_factory, records):
    settings = base(tmp_path_factory.mktemp("root"))
    write(settings, *sorted(records, key=lambda each: each[0]))
    before = _quotas(settings)
    delete(settings)
    assert _quotas(settings) == before


def _quotas(settings):
    """Return the quota of each user at each hour from the first retained date."""
    timeline = CallbackTimeline()
    for entry in read_quota_log(settings, DAY * 2, with_clusters=True):
        timeline.add(to_change(entry.record, entry.timestamp))
    limits = {
        (user, hour): timeline.resolve(user, "app", DAY + hour * HOUR).limit
        for user in ("alice", "bob", "carol")
        for hour in range(40)
    }
    # Without an earlier record of the same quota it holds since the later one.
    return {when: limit and limit.quota for when, limit in limits.items()}
