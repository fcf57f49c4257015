"""Listing buckets: their current tokens, and their selection and order."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.buckets.listing import BucketQuery, select_buckets, to_listed
from jobs.buckets.saved import BucketFileHeader, SavedBucket, SavedBuckets, read_buckets
from quota.algorithms.token_bucket import MAX_THROTTLE_MS
from quota.errors import BadInput
from quota.records.entity import Tags
from quota.records.quota_log import Window
from schemas.buckets import STATE, STATE_VERSION

NOW = 1_795_266_000_000
WINDOW = Window()
DEBT = SavedBucket(Tags("alice", "").key, -60.0, NOW - 7000, 5.0)
GAINING = SavedBucket(Tags("bob", "app").key, 40.0, NOW - 1000, 10.0, 100.0)
FULL = SavedBucket(Tags("", "tool").key, 8.0, NOW - 60_000, 1.0)
GROUP = SavedBucket(Tags("", "", (("group", "pay"),)).key, 0.0, NOW, 2.0)
ALL = [FULL, GROUP, DEBT, GAINING]


def choose(*, tags=None, in_debt=False, limit=1000):
    listing = select_buckets(ALL, BucketQuery(tags or {}, in_debt, limit), NOW, WINDOW)
    return [row.bucket for row in listing.buckets], listing.left_out


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


def test_buckets_with_the_lowest_tokens_come_first():
    assert choose() == ([ALICE, PAY, TOOL, BOB], 0)


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


HEADER = BucketFileHeader(STATE_VERSION, 1, {"requests": "id"}, {"requests": {"0": 7, "1": 0}})
BUCKET = SavedBucket('["user","alice"]', -0.1, 5, 1 / 3)

numbers = st.floats(allow_nan=False, allow_infinity=False)
buckets = st.builds(
    SavedBucket, st.text(), numbers, st.integers(0, 2**62), numbers, st.none() | numbers, more=st.none() | st.binary()
)


def write(saved, file):
    with file.open("wb") as out:
        saved.write(out)


@given(st.lists(buckets))
def test_buckets_are_read_exactly_as_written(tmp_path_factory, saved):
    file = tmp_path_factory.mktemp("buckets") / "buckets.jsonl"
    header = BucketFileHeader(HEADER.state_version, len(saved), HEADER.topics, HEADER.positions)
    write(SavedBuckets(header, saved), file)
    export = read_buckets(file)
    assert (export.header, export.buckets) == (header, saved)
    assert [repr(bucket) for bucket in export.buckets] == [repr(bucket) for bucket in saved]  # -0.0 is not 0.0


def test_its_fields_are_those_of_the_state():
    assert SavedBucket.__struct_fields__ == ("bucket", *STATE.names)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "buckets.jsonl"
    write(SavedBuckets(HEADER, [BUCKET]), path)
    return path


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda text: text.split(b"\n")[0], "is truncated: it has 0 of 1 buckets; export again"),
        (lambda text: text[:-9], "was not written by buckets export, or was changed: "),
        (lambda text: text.replace(b'"K"', b'"k"'), "was not written by buckets export"),
        (lambda _: b"", "was not written by buckets export"),
        (
            lambda text: text.replace(b'"state_version":%d' % STATE_VERSION, b'"state_version":99'),
            f"has buckets of version 99, and this program uses version {STATE_VERSION}; export and load",
        ),
    ],
)
def test_an_invalid_file_is_rejected(file, change, error):
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(BadInput, match=re.escape(error)):
        read_buckets(file)
