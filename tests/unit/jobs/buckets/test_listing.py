"""Listing buckets: their current tokens, and their selection and order."""

import msgspec
import pytest

from jobs.buckets.listing import BucketQuery, Order, select_buckets, to_listed
from jobs.buckets.saved import SavedBucket
from jobs.cli.buckets import bucket_row
from quota.algorithms.token_bucket import MAX_THROTTLE_MS
from quota.records.entity import Tags
from quota.records.quota import Window

NOW = 1_795_266_000_000
WINDOW = Window()
DEBT = SavedBucket(Tags("alice", "").key, -60.0, NOW - 7000, 5.0)
GAINING = SavedBucket(Tags("bob", "app").key, 40.0, NOW - 1000, 10.0, 100.0)
FULL = SavedBucket(Tags("", "tool").key, 8.0, NOW - 60_000, 1.0)
GROUP = SavedBucket(Tags("", "", (("group", "pay"),)).key, 0.0, NOW, 2.0)
ALL = [FULL, GROUP, DEBT, GAINING]


def choose(order=Order.TOKENS, *, tags=None, in_debt=False, limit=1000):
    found = select_buckets(ALL, BucketQuery(tags or {}, in_debt, order, limit), NOW, WINDOW)
    return [row.bucket for row in found.buckets], found.left_out


ALICE, BOB, TOOL, PAY = {"user": "alice"}, {"user": "bob", "client-id": "app"}, {"client-id": "tool"}, {"group": "pay"}


def test_a_bucket_in_debt_says_when_that_ends_and_when_it_is_full():
    """-60 and 7 s of 5/s later -25: 5 s to zero, and 55 tokens more are 11 s."""
    row = to_listed(DEBT, NOW, WINDOW)
    assert (row.bucket, row.tokens, row.updated_at, row.rate) == (ALICE, -60.0, NOW - 7000, 5.0)
    assert (row.tokens_now, row.burst, row.in_debt) == (-25.0, 55.0, True)
    assert (row.debt_ends_in_ms, row.full_in_ms) == (5000, 16_000)


def test_a_clock_behind_that_of_the_broker_neither_adds_nor_removes_tokens():
    assert to_listed(DEBT, NOW - 60_000, WINDOW).tokens_now == -60.0


def test_infinite_times_are_bounded():
    row = to_listed(msgspec.structs.replace(DEBT, rate=1e-300), NOW, WINDOW)
    assert (row.debt_ends_in_ms, row.full_in_ms) == (MAX_THROTTLE_MS, MAX_THROTTLE_MS)
    assert bucket_row(row, NOW)[5] == "over 24 days"


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (Order.TOKENS, [ALICE, PAY, TOOL, BOB]),
        (Order.FULL_IN, [ALICE, PAY, BOB, TOOL]),
        (Order.UPDATED, [PAY, BOB, ALICE, TOOL]),
        (Order.RATE, [BOB, ALICE, PAY, TOOL]),
        (Order.NAME, [BOB, TOOL, PAY, ALICE]),
    ],
)
def test_buckets_are_sorted(order, expected):
    assert choose(order) == (expected, 0)


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


def test_a_row_has_the_values_that_operators_need():
    assert bucket_row(to_listed(DEBT, NOW, WINDOW), NOW) == [
        "user 'alice'",
        "-25",
        "55",
        "5",
        "5 s",
        "16 s",
        "12:59:53Z",
    ]
    assert bucket_row(to_listed(FULL, NOW, WINDOW), NOW)[5] == "full"


def test_a_bucket_without_debt_gains_up_to_its_own_burst():
    row = to_listed(GAINING, NOW, WINDOW)
    assert (row.tokens_now, row.burst, row.in_debt, row.debt_ends_in_ms, row.full_in_ms) == (50, 100, False, 0, 5000)


def test_buckets_beyond_the_limit_are_counted():
    assert choose(limit=3) == ([ALICE, PAY, TOOL], 1)
