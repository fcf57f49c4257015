"""Listing buckets: their current tokens, and their selection and order."""

import msgspec
import pytest

from jobs.buckets.listing import BucketSelection, describe_bucket, list_buckets, select_buckets, to_listed
from jobs.buckets.saved import SavedBucket
from quota.algorithms.token_bucket import MAX_THROTTLE_MS
from quota.errors import MutationQuotaError
from quota.records.entity import QuotaEntity, Tags
from quota.records.levels import Limit, Resolution
from quota.records.quota_log import Quota, Window
from quota.records.record import BEGINNING
from tests.support.tables import DAY, HOUR, decision, write_tables

NOW = 1_795_266_000_000
WINDOW = Window()
DEBT = SavedBucket(Tags("alice", "").key, -60.0, NOW - 7000, 5.0)
GAINING = SavedBucket(Tags("bob", "app").key, 40.0, NOW - 1000, 10.0, 100.0)
FULL = SavedBucket(Tags("", "tool").key, 8.0, NOW - 60_000, 1.0)
GROUP = SavedBucket(Tags("", "", (("group", "pay"),)).key, 0.0, NOW, 2.0)
ALL = [FULL, GROUP, DEBT, GAINING]


def choose(*, tags=None, in_debt=False, limit=1000):
    listing = select_buckets(ALL, BucketSelection(tags or {}, in_debt, limit), NOW, WINDOW)
    return [row.bucket for row in listing.buckets], listing.left_out


ALICE, BOB, TOOL, PAY = {"user": "alice"}, {"user": "bob", "client-id": "app"}, {"client-id": "tool"}, {"group": "pay"}


def test_a_bucket_in_debt_says_when_that_ends_and_when_it_is_full():
    """-60 and 7 s of 5/s later -25: 5 s to zero, and 55 tokens more are 11 s."""
    row = to_listed(DEBT, NOW, WINDOW)
    assert (row.bucket, row.tokens, row.updated_at, row.rate) == (ALICE, -60.0, NOW - 7000, 5.0)
    assert (row.tokens_now, row.burst, row.in_debt) == (-25.0, 55.0, True)
    assert (row.debt_ends_in_ms, row.full_in_ms) == (5000, 16_000)


@pytest.mark.parametrize(
    ("saved", "options", "expected"),
    [
        # -60 and 7 s of 5/s later -25: 5 s to zero; 45 more are 14 s, and 500 are more than the burst of 55.
        (DEBT, {}, (-25.0, 5000, 14_000, 14_000)),
        (DEBT, {"mutations": 500}, (-25.0, 5000, None, 105_000)),
        # No debt is longer than 20 s: they are paid off 20 s after it ends.
        (DEBT, {"mutations": 500, "max_debt_ms": 20_000}, (-25.0, 5000, None, 25_000)),
        (DEBT, {"mutations": None}, (-25.0, 5000, None, None)),
        # Since 3 s at 10/s: -60, -40 after 4 s, and -10; the burst is 110.
        (DEBT, {"rate": 10.0, "since": NOW - 3000}, (-10.0, 1000, 5500, 5500)),
        (DEBT, {"reset_at": NOW - 1000}, (55.0, 0, 0, 0)),
        (DEBT, {"reset_at": NOW - 8000}, (-25.0, 5000, 14_000, 14_000)),
        (None, {}, (55.0, 0, 0, 0)),
    ],
)
def test_a_bucket_says_when_mutations_fit_by_the_quota_of_now(saved, options, expected):
    given = {"mutations": 45, "rate": 5.0, "since": BEGINNING, "reset_at": None, "max_debt_ms": None} | options
    limit = Limit(Quota(given["rate"], max_debt_ms=given["max_debt_ms"]), given["since"])
    resolution = Resolution(Tags("alice", ""), limit, QuotaEntity("alice"), given["reset_at"])
    row = describe_bucket(saved and to_listed(saved, NOW, WINDOW), resolution, NOW, given["mutations"], WINDOW)
    assert (row.tokens, row.debt_ends_in_ms, row.fits_in_ms, row.paid_in_ms) == expected


def test_one_bucket_is_found_among_others_that_have_its_tags():
    client = SavedBucket(Tags("alice", "app").key, -90.0, NOW, 5.0)
    listing = select_buckets([client, *ALL], BucketSelection(ALICE, alone=True), NOW, WINDOW)
    assert [row.bucket for row in listing.buckets] == [ALICE]


def test_a_clock_behind_that_of_the_broker_neither_adds_nor_removes_tokens():
    assert to_listed(DEBT, NOW - 60_000, WINDOW).tokens_now == -60.0


def test_infinite_times_are_bounded():
    row = to_listed(msgspec.structs.replace(DEBT, rate=1e-300), NOW, WINDOW)
    assert (row.debt_ends_in_ms, row.full_in_ms) == (MAX_THROTTLE_MS, MAX_THROTTLE_MS)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"tags": {"user": "alice"}}, [ALICE]),
        ({"tags": {"client-id": "app"}}, [BOB]),
        ({"tags": {"user": "alice", "client-id": "app"}}, []),
        ({"tags": {"group": "pay"}}, [PAY]),
        ({"in_debt": True}, [ALICE]),
        ({"in_debt": True, "tags": {"user": "bob"}}, []),
    ],
)
def test_filtered_buckets_are_omitted(wanted, expected):
    assert choose(**wanted) == (expected, 0)


def test_a_bucket_without_debt_gains_up_to_its_own_burst():
    row = to_listed(GAINING, NOW, WINDOW)
    assert (row.tokens_now, row.burst, row.in_debt, row.debt_ends_in_ms, row.full_in_ms) == (50, 100, False, 0, 5000)


def test_buckets_beyond_the_limit_are_counted():
    assert choose(limit=3) == ([ALICE, PAY, TOOL], 1)


TODAY = DAY + 30 * HOUR
EVERYONE = BucketSelection({}, in_debt=False, limit=1000)


def buckets_of(settings, query=EVERYONE):
    listing = list_buckets(settings, query, lambda: TODAY)
    return {tuple(row.bucket.items()): row for row in listing.buckets}


def source(partition, offset):
    return {"topic": "requests", "partition": partition, "offset": offset}


OF_ALICE, OF_APP, OF_PAY = (("user", "alice"),), (("user", "bob"), ("client-id", "app")), (("group", "pay"),)


def test_the_last_decision_of_a_bucket_counts(settings):
    """It is the last by time, on whichever day, and by offset at the same time."""
    write_tables(
        settings,
        decisions=[
            decision(TODAY - 2000, user="bob", client="app", tokens=9.0, source=source(0, 9)),
            decision(TODAY - 2000, user="bob", client="app", tokens=7.0, source=source(0, 12), max_debt_ms=60_000),
            decision(TODAY - 7000, user="alice", tokens=-60.0, source=source(0, 11)),
            decision(DAY, user="alice", tokens=55.0, source=source(1, 40)),
            decision(DAY, user="x", user_tag="", more_tags=[("group", "pay")], tokens=0.0, quota=2.0, burst=3.0),
        ],
    )
    rows = buckets_of(settings)
    assert set(rows) == {OF_ALICE, OF_APP, OF_PAY}
    assert (rows[OF_APP].tokens, rows[OF_APP].tokens_now, rows[OF_APP].max_debt_ms) == (7.0, 17.0, 60_000)
    assert (rows[OF_ALICE].tokens, rows[OF_ALICE].tokens_now, rows[OF_ALICE].in_debt) == (-60.0, -25.0, True)
    assert (rows[OF_ALICE].updated_at, rows[OF_ALICE].max_debt_ms) == (TODAY - 7000, None)
    assert (rows[OF_PAY].rate, rows[OF_PAY].burst, rows[OF_PAY].tokens_now) == (2.0, 3.0, 3.0)


@pytest.mark.parametrize(
    ("set_back_to", "updated_at", "tokens_now"), [(None, TODAY - 4000, -10.0), (TODAY - 9000, TODAY - 9000, 15.0)]
)
def test_a_late_request_has_not_changed_the_time_of_the_bucket(settings, set_back_to, updated_at, tokens_now):
    """-30 at five per second, for four seconds; or for nine, because the clock was set back."""
    before = {"tokens": -20.0, "updated_at": TODAY - 4000, "quota": 5.0, "burst": 55.0, "set_back_to": set_back_to}
    write_tables(settings, decisions=[decision(TODAY - 9000, tokens=-30.0, bucket_before=before)])
    (row,) = buckets_of(settings).values()
    assert (row.updated_at, row.tokens_now) == (updated_at, tokens_now)


def test_a_late_request_has_not_changed_the_quota_of_the_bucket(settings):
    """It may know an earlier one: its rate was 50, and the bucket's is 5."""
    before = {"tokens": -20.0, "updated_at": TODAY - 4000, "quota": 5.0, "burst": 55.0, "max_debt_ms": 60_000}
    write_tables(settings, decisions=[decision(TODAY - 9000, tokens=-30.0, quota=50.0, bucket_before=before)])
    (row,) = buckets_of(settings).values()
    assert (row.rate, row.burst, row.max_debt_ms, row.tokens_now) == (5.0, 55.0, 60_000, -10.0)


def test_charges_that_came_late_from_another_partition_count_at_once(settings):
    """40 at T; then late ones leave 30, 10 and 20 in any order of arrival, one of them before an earlier T."""
    late = [(30.0, TODAY - 4000, 1), (10.0, TODAY - 4000, 2), (20.0, TODAY - 4000, 1), (-99.0, TODAY - 6000, 2)]
    rows = [decision(TODAY - 4000, tokens=40.0, source=source(0, 1))]
    for offset, (tokens, updated_at, partition) in enumerate(late):
        before = {"tokens": 0.0, "updated_at": updated_at, "quota": 5.0, "burst": 55.0}
        rows.append(decision(TODAY - 9000, tokens=tokens, source=source(partition, offset), bucket_before=before))
    write_tables(settings, decisions=rows)
    (row,) = buckets_of(settings).values()
    assert (row.tokens, row.updated_at, row.tokens_now) == (10.0, TODAY - 4000, 30.0)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        pytest.param((0, source(0, 8)), (-5000, source(0, 9)), id="a clock stepped back"),
        pytest.param((0, source(0, 9)), (0, source(1, 2)), id="two partitions at the same time"),
        pytest.param((-1, source(1, 9)), (0, source(0, 2)), id="two partitions"),
    ],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_decisions_of_a_bucket_are_in_the_order_in_which_they_were_made(settings, first, last, reverse):
    decisions = [
        decision(TODAY + ms, source=where, tokens=tokens) for (ms, where), tokens in ((first, 40.0), (last, -20.0))
    ]
    write_tables(settings, decisions=decisions[::-1] if reverse else decisions)
    (row,) = buckets_of(settings).values()
    assert (row.tokens, row.updated_at) == (-20.0, TODAY + last[0])


def test_rows_of_an_older_table_which_have_no_further_tags_are_of_the_same_bucket(settings):
    rows = [
        decision(TODAY - 2000, tokens=9.0, more_tags=None, source=source(0, 1)),
        decision(TODAY, tokens=7.0),
    ]
    write_tables(settings, decisions=rows)
    (row,) = list_buckets(settings, EVERYONE, lambda: TODAY).buckets
    assert row.tokens == 7.0


def test_it_says_as_of_when(settings):
    write_tables(settings, decisions=[decision(DAY), decision(DAY + 5, user="bob")])
    assert list_buckets(settings, EVERYONE, lambda: TODAY).as_of == DAY + 5


def test_decisions_without_a_quota_have_no_bucket(settings):
    nothing = {"quota": None, "burst": None, "tokens": None, "user_tag": ""}
    write_tables(settings, decisions=[decision(DAY, **nothing), decision(DAY + 1, user="bob")])
    assert set(buckets_of(settings)) == {(("user", "bob"),)}


def test_a_selection_is_of_buckets_not_of_decisions(settings):
    """A debt that was paid since is none, although decisions of that time are in the table."""
    write_tables(
        settings, decisions=[decision(TODAY - 9000, tokens=-1.0), decision(TODAY - 1, user="bob", tokens=-1.0)]
    )
    assert set(buckets_of(settings, BucketSelection({}, in_debt=True, limit=9))) == {(("user", "bob"),)}
    assert buckets_of(settings, BucketSelection({"user": "carol"}, in_debt=False, limit=9)) == {}


def test_a_table_without_decisions_has_no_buckets(settings):
    write_tables(settings)
    assert list_buckets(settings, EVERYONE, lambda: TODAY).buckets == []


def test_without_a_table_and_without_a_checkpoint_it_says_so_before_spark_is_started(settings):
    error = r"there are no buckets in .*/enforce/v\d+: enforce has not finished a batch yet"
    with pytest.raises(MutationQuotaError, match=error):
        list_buckets(settings, EVERYONE, lambda: TODAY)
