"""The data that the page gets: Q = 5 mutations a second and so B = 55, from 2026-11-21."""

from operator import attrgetter
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from jobs.dashboard.state import Interval, PageState, View
from jobs.dashboard.tenants import BucketLevel
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadRecord
from quota.records.decision import read_decision
from quota.records.entity import QuotaEntity
from quota.records.quota_log import (
    CallbackRecord,
    CallbackSetting,
    Cluster,
    ClusterRecord,
    QuotaLogEntry,
    QuotaRecord,
    ResetRecord,
)
from quota.records.request import Observed
from quota.settings import load_settings
from tests.support.factories import START, decided
from tests.unit.jobs.dashboard.conftest import ALICE, DEBT, FIVE, REJECTED, fill, quotas_of, received

HOUR = 3_600_000


def make_state(now=START):
    return PageState(load_settings(environment={}), now)


def page_data(state, now=START, view=None, **shown):
    return state.news(view or View(**shown), now)


def filled(*decisions, **given):
    """Return a state with these decisions; `given` are entries and the time of `fill`."""
    state = make_state()
    fill(state, *decisions, **given)
    return state


def test_a_page_first_gets_everything_and_then_new_data():
    state = filled(DEBT)
    view = View()
    first = state.news(view, START)
    assert first["first"]
    assert [decision.id for decision in first["decisions"]] == ["mutation-requests-0-0"]
    nothing = state.news(view, START)
    assert not nothing["first"]
    assert (nothing["decisions"], nothing["tenants"], nothing["changes"]) == ([], [], [])
    state.record(*received(REJECTED))
    state.refresh(START + 500, quotas_of(FIVE), changed=False)
    second = state.news(view, START + 500)
    assert [decision.id for decision in second["decisions"]] == ["mutation-requests-0-1"]
    assert [tenant.user for tenant in second["tenants"]] == ["alice"]


def test_a_page_of_another_state_gets_everything_again():
    view = View()
    page_data(filled(DEBT), view=view)
    assert page_data(filled(DEBT), view=view)["first"]


def test_a_page_lists_what_is_scheduled_until_it_takes_effect_or_is_cancelled():
    """A quota and its removal, a callback and a reset; the cancelled change of carol is not among them."""
    records = [
        QuotaRecord(ALICE, 9.0, effective_at=START + 1),
        QuotaRecord(ALICE, None, effective_at=START + 4),
        CallbackRecord(None, effective_at=START + 3),
        ResetRecord({"user": "bob"}, effective_at=START + 2),
        *(QuotaRecord(QuotaEntity("carol"), 9.0, effective_at=START + 1, cancelled=done) for done in (False, True)),
    ]
    entries = [QuotaLogEntry(number, START - 1000, record) for number, record in enumerate(records)]
    state, view = filled(DEBT, entries=entries), View()
    rate = "user-principal 'alice' becomes controller_mutation_rate=9.0 from 2026-11-21T13:00:00.001Z on"
    rest = [
        "buckets with user 'bob' are reset at 2026-11-21T13:00:00.002Z",
        "the callback is that of the settings from 2026-11-21T13:00:00.003Z on",
        "user-principal 'alice' is removed from 2026-11-21T13:00:00.004Z on",
    ]
    assert state.news(view, START)["scheduled"] == [rate, *rest]
    state.refresh(START + 1, quotas_of(*entries), changed=True)
    assert state.news(view, START + 1)["scheduled"] == rest


def of_bob(partitions, at, offset, **state):
    return replace(decided(partitions, at=at, offset=offset, **state), user="bob", user_tag="bob")


def test_a_view_has_the_load_the_tenants_and_the_decisions_of_the_names_that_it_shows():
    """Alice gets 60 mutations, bob 7 of 9, and waits for 2 s."""
    state, view = filled(DEBT, of_bob(7, START, 1)), View("BOB".casefold())
    first = state.news(view, START)
    state.record(*received(of_bob(2, START + 100, 2, state=-10.0)))
    state.record(*received(REJECTED))
    state.refresh(START + 600, quotas_of(FIVE), changed=False)
    then = state.news(view, START + 600)
    assert [(tenant.user, tenant.admitted, tenant.rejected) for tenant in then["tenants"]] == [("bob", 7, 2)]
    assert (first["buckets"], first["throttled"], then["throttled"]) == (1, 0, 1)
    sums = attrgetter("decisions", "admitted", "rejected", "throttled")
    loads = [list(map(sums, news["intervals"])) for news in (first, then)]
    assert loads == [[(1, 7, 0, 0)], [(2, 7, 2, 1)]]
    assert [[decision.id for decision in news["decisions"]] for news in (first, then)] == [
        ["mutation-requests-0-1"],
        ["mutation-requests-0-2"],
    ]


def test_a_view_finds_decisions_behind_any_number_of_others():
    """A page that filters what it has got says that a tenant has none, though it was rejected a minute ago."""
    others = [decided(1, at=START + number, offset=number) for number in range(1, 2000)]
    (decision,) = page_data(filled(of_bob(7, START, 0), *others), text="bob")["decisions"]
    assert decision.user == "bob"


def test_a_copy_of_a_decision_counts_once():
    news = page_data(filled(DEBT, DEBT))
    assert (len(news["decisions"]), news["tenants"][0].admitted, news["intervals"][0].admitted) == (1, 60, 60)


def test_a_percentile_has_two_digits():
    state = make_state()
    for offset, latency in enumerate((8, 12, 1234)):
        state.record(*received(decided(1, at=START, offset=offset), latency))
    (interval,) = page_data(state)["intervals"]
    assert (interval.p50, interval.p99) == (12, 1200)


def test_a_tenant_that_need_not_wait_is_not_throttled_wherever_in_an_interval_it_asks():
    intervals = page_data(filled(*(decided(1, at=START + at, offset=at) for at in (0, 1, 4999))))["intervals"]
    assert [(interval.decisions, interval.throttled) for interval in intervals] == [(3, 0)]


@pytest.mark.parametrize(
    ("start", "looks"),
    [
        (START, (START, START + 1000, START + 5000, START + 9999, START + 20_000)),
        (START + HOUR // 2, (START + HOUR // 2,)),
    ],
)
def test_a_throttled_tenant_counts_in_each_interval_until_its_throttle_ends(start, looks):
    """Rejected at -50 it waits 10 s: from 0 to 10 s, in two intervals of 5 s, at any time of the query."""
    state = make_state(now=start)
    state.record(*received(decided(1, at=START, state=-50.0)))
    for now in looks:
        state.refresh(now, quotas_of(), changed=False)
    intervals = page_data(state, looks[-1])["intervals"]
    assert [(interval.at - START, interval.throttled) for interval in intervals] == [(0, 1), (5000, 1)]


def test_a_long_throttle_costs_no_more_than_a_short_one_and_counts_in_each_interval(monkeypatch):
    """Rejected at -50,000 it waits 10,000 s: from 0 s on in each of the 720 intervals of each hour, and to 10,000 s."""
    made = Mock(side_effect=Interval)
    monkeypatch.setattr("jobs.dashboard.state.Interval", made)
    state = make_state()
    state.record(*received(decided(1, at=START, state=-50_000.0)))
    assert made.call_count == 1
    counts = []
    for now in (START + 5000, START + 2 * HOUR, START + 10_005_000, START + 4 * HOUR):
        state.refresh(now, quotas_of(), changed=False)
        counts.append(sum(interval.throttled for interval in page_data(state, now)["intervals"]))
    assert counts == [2, 721, 720 - 1, 0]


@pytest.mark.parametrize(("late", "sent"), [(0, [0]), (60_000, [*range(-12, 1)])])
def test_a_page_gets_all_intervals_of_a_throttle_that_it_learns_late(late, sent):
    """Decided for a request of the last minute, it throttles in all intervals since, of which none has changed."""
    state, view = filled(DEBT, now=START), View()
    state.news(view, START)
    state.record(*received(of_bob(1, START - late, 1, state=-5000.0)))
    throttled = [interval for interval in page_data(state, START, view)["intervals"] if interval.throttled]
    assert [(interval.at - START) // 5000 for interval in throttled] == sent


def test_a_tenant_has_its_counts_and_the_level_from_which_its_tokens_follow():
    (row,) = page_data(filled(DEBT, REJECTED, now=START + 500), START + 500)["tenants"]
    assert (row.user, row.client, row.tags) == ("alice", "*", ("alice", ""))
    assert row.level == BucketLevel(tokens=-2.5, at=START + 500, rate=5.0, burst=55.0)
    assert (row.admitted, row.rejected, row.retry_at) == (60, 30, START + 1000)
    assert row.entity == "user-principal 'alice'"


@pytest.mark.parametrize(
    ("entry", "level"),
    [
        # -5 at the decision; 2 s later, at 5, the rate is 10, and the burst 110
        (QuotaRecord(ALICE, 10.0), BucketLevel(5.0, START + 2000, 10.0, 110.0)),
        (QuotaRecord(ALICE, None), None),
        (ResetRecord({"user": "alice"}), BucketLevel(55.0, START + 2000, 5.0, 55.0)),
    ],
)
def test_a_change_shows_before_the_next_request(entry, level):
    changed = QuotaLogEntry(1, START + 2000, entry)
    (row,) = page_data(filled(DEBT, entries=(FIVE, changed), now=START + 3000), START + 3000)["tenants"]
    assert (row.level, row.entity) == (level, "user-principal 'alice'" if level else "")


def test_a_scheduled_change_takes_effect_without_another_one_in_the_log():
    later = QuotaLogEntry(1, START, QuotaRecord(ALICE, 9.0, effective_at=START + 1000))
    state = filled(DEBT, entries=(FIVE, later))
    for at, (rate, scheduled) in {START + 999: (5.0, 1), START + 1000: (9.0, 0)}.items():
        state.refresh(at, quotas_of(FIVE, later), changed=False)
        news = page_data(state, at)
        assert (news["tenants"][0].level.rate, len(news["scheduled"])) == (rate, scheduled)


def test_if_the_callback_fails_the_last_decision_gives_the_level(monkeypatch):
    monkeypatch.setattr("jobs.dashboard.tenants.resolve_quota", Mock(side_effect=BadRecord("fails")))
    (row,) = page_data(filled(DEBT))["tenants"]
    assert row.level == BucketLevel(-5.0, START, 5.0, 55.0)


def test_the_oldest_decisions_are_dropped_beyond_the_maximum(monkeypatch):
    monkeypatch.setattr("jobs.dashboard.decisions.KEPT_DECISIONS", 100)
    decisions = [decided(1, at=START + number, offset=number) for number in range(120)]
    state = filled(*decisions)
    assert state.explain("mutation-requests-0-19") is None
    assert state.explain("mutation-requests-0-20") is not None


def test_an_explanation_names_who_used_the_bucket_in_the_last_hour_and_what_is_scheduled():
    """Another user's change or reset, and mutations of an hour ago or of another bucket, are not among them."""
    sizes = {"etl": 30, "app": 10}
    decisions = [
        decided(size, at=START, offset=number, client_id=name) for number, (name, size) in enumerate(sizes.items())
    ]
    old = decided(50, at=START - HOUR - 1, offset=7, client_id="etl")
    other = replace(decided(5, at=START, offset=8, client_id="x"), client_tag="x")
    later = [QuotaRecord(QuotaEntity(name), 9.0, effective_at=START + 1) for name in ("alice", "bob")]
    later += [ResetRecord({"user": name}, effective_at=START + 2) for name in ("alice", "bob")]
    later += [CallbackRecord(CallbackSetting("tests.support.callbacks.ByTopic"), effective_at=START + 3)]
    entries = [QuotaLogEntry(number, START - 1000, record) for number, record in enumerate(later)]
    state = filled(old, *decisions, other, entries=entries)
    explanation = state.explain("mutation-requests-0-1")
    assert explanation.last_hour == {"etl": 30, "app": 10}
    assert [(each.effective_at - START, each.entity, each.bucket) for each in explanation.scheduled] == [
        (1, QuotaEntity("alice"), None),
        (2, None, {"user": "alice"}),
        (3, None, None),
    ]
    senders = {row.name: row.senders for row in page_data(state)["tenants"]}
    assert senders == {"user 'alice'": "40 mutations, of 'etl' 75%, 'app' 25%", "user 'alice', client-id 'x'": ""}


def test_senders_beyond_the_first_fifty_of_a_minute_are_counted_together():
    decisions = [decided(1, at=START, offset=number, client_id=f"c{number}") for number in range(53)]
    charged = filled(*decisions).explain("mutation-requests-0-0").last_hour
    assert (len(charged), charged["c49"], charged["(others)"]) == (51, 1, 3)


def test_senders_who_are_only_rejected_take_no_place_and_long_names_are_cut():
    rejected = [decided(1, at=START, state=-2.5, offset=number, client_id=f"c{number}") for number in range(60)]
    admitted = decided(1, at=START, offset=60, client_id="x" * 32_000)
    assert filled(*rejected, admitted).explain("mutation-requests-0-60").last_hour == {"x" * 80: 1}


def test_tenants_are_bounded_and_the_quietest_are_dropped(monkeypatch):
    monkeypatch.setattr("jobs.dashboard.tenants.MAX_TENANTS", 50)
    state = make_state()
    for number in range(51):
        decision = replace(decided(1, at=START + number, offset=number), user_tag=f"u{number}")
        state.record(*received(decision))
    state.refresh(START + 51, quotas_of(), changed=False)
    news = page_data(state)
    assert (news["buckets"], news["left_out"]) == (46, 5)
    assert "user 'u4'" not in (names := [tenant.name for tenant in news["tenants"]])
    assert "user 'u5'" in names


def test_a_name_that_looks_like_another_is_spelled_out():
    (decision,) = page_data(filled(replace(DEBT, user="עלי")))["decisions"]
    assert decision.user == "'עלי' (spelled '\\u05e2\\u05dc\\u05d9')"


@pytest.mark.parametrize("arrival", [(0, 1, 2), (2, 1, 0)])
def test_after_a_clock_was_set_back_decisions_are_in_the_order_of_their_bucket(arrival):
    """Offset 1 was decided after offset 0, though its time is a second earlier, and both before partition 1."""
    decisions = [
        decided(60, at=START + 1000, offset=0),
        decided(1, at=START, state=-50.0, offset=1),
        decided(1, at=START + 1500, state=-45.0, offset=0, partition=1),
    ]
    ids = ["mutation-requests-0-0", "mutation-requests-0-1", "mutation-requests-1-0"]
    state = filled(*(decisions[number] for number in arrival), now=START + 2000)
    assert [each.id for each in state.of_bucket('["alice",""]', 9)["decisions"]] == ids[::-1]
    assert [read_decision(record).decision_id for record in state.records()] == ids


def test_an_observed_request_has_no_latency_and_throttles_nobody():
    observed = replace(decided(1, at=START, state=-50.0), observed=Observed(START, [0]))
    news = page_data(filled(observed))
    (interval,) = news["intervals"]
    assert (interval.decisions, interval.p50, interval.throttled, interval.wait) == (1, None, 0, 0)
    assert [(each.latency, each.wait) for each in news["decisions"]] == [(None, 0)]
    assert (news["throttled"], [tenant.retry_at for tenant in news["tenants"]]) == (0, [0])


def cluster_at(moment, partitions, effective_at=None):
    record = ClusterRecord(Cluster({"orders": [1] * partitions}), effective_at=effective_at)
    return QuotaLogEntry(partitions, moment, record)


def test_metadata_replaced_more_than_an_hour_ago_is_dropped_and_its_successor_is_stored():
    """The one of -30 min is scheduled since long ago; the one that was in force an hour ago is needed for decisions."""
    old, in_force = cluster_at(START - 3 * HOUR, 1), cluster_at(START - 2 * HOUR, 2)
    scheduled, new = cluster_at(START - 4 * HOUR, 3, START - HOUR // 2), cluster_at(START - 60_000, 4)
    state = filled(entries=(scheduled, old, FIVE, in_force, new))
    assert state.entries() == [scheduled, FIVE, in_force, new]


def test_decisions_dated_ahead_count_from_their_receipt_and_expire_after_an_hour():
    """A day ahead, or in microseconds: each would stay on the page until its own time had passed."""
    state = make_state()
    for number, timestamp in enumerate((START + 24 * HOUR, START * 1000, START)):
        decision = replace(decided(60, at=START, offset=number), timestamp=timestamp, retry_at=timestamp + 1000)
        state.record(decision, START)
    state.refresh(START, CallbackTimeline(), changed=True)
    data = page_data(state)
    assert [(interval.at, interval.decisions) for interval in data["intervals"]] == [(START // 5000 * 5000, 3)]
    assert [(row.admitted, row.retry_at) for row in data["tenants"]] == [(180, START + 1000)]

    state.refresh(START + HOUR + 60_000, CallbackTimeline(), changed=True)
    assert page_data(state, START + HOUR + 60_000)["intervals"] == []
    assert page_data(state)["tenants"] == []
    assert state.records() == []
