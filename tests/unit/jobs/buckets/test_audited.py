"""Buckets from the audit's table: each as after its last decision."""

import pytest

from jobs.buckets.audited import list_buckets
from jobs.buckets.listing import BucketQuery
from quota.errors import MutationQuotaError
from tests.support.tables import DAY, HOUR, decision, write_tables

NOW = DAY + 30 * HOUR
EVERYONE = BucketQuery({}, in_debt=False, limit=1000)


def buckets_of(settings, query=EVERYONE):
    listing = list_buckets(settings, query, lambda: NOW)
    return {tuple(row.bucket.items()): row for row in listing.buckets}


def source(partition, offset):
    return {"topic": "requests", "partition": partition, "offset": offset}


ALICE, APP, PAY = (("user", "alice"),), (("user", "bob"), ("client-id", "app")), (("group", "pay"),)


def test_the_last_decision_of_a_bucket_counts(settings):
    """It is the last by time, on whichever day, and by offset at the same time."""
    write_tables(
        settings,
        decisions=[
            decision(NOW - 2000, user="bob", client="app", tokens=9.0, source=source(0, 9)),
            decision(NOW - 2000, user="bob", client="app", tokens=7.0, source=source(0, 12), max_debt_ms=60_000),
            decision(NOW - 7000, user="alice", tokens=-60.0, source=source(0, 11)),
            decision(DAY, user="alice", tokens=55.0, source=source(1, 40)),
            decision(DAY, user="x", user_tag="", more_tags=[("group", "pay")], tokens=0.0, quota=2.0, burst=3.0),
        ],
    )
    rows = buckets_of(settings)
    assert set(rows) == {ALICE, APP, PAY}
    assert (rows[APP].tokens, rows[APP].tokens_now, rows[APP].max_debt_ms) == (7.0, 17.0, 60_000)
    assert (rows[ALICE].tokens, rows[ALICE].tokens_now, rows[ALICE].in_debt) == (-60.0, -25.0, True)
    assert (rows[ALICE].updated_at, rows[ALICE].max_debt_ms) == (NOW - 7000, None)
    assert (rows[PAY].rate, rows[PAY].burst, rows[PAY].tokens_now) == (2.0, 3.0, 3.0)


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
        decision(NOW + ms, source=where, tokens=tokens) for (ms, where), tokens in ((first, 40.0), (last, -20.0))
    ]
    write_tables(settings, decisions=decisions[::-1] if reverse else decisions)
    (row,) = buckets_of(settings).values()
    assert (row.tokens, row.updated_at) == (-20.0, NOW + last[0])


def test_rows_of_an_older_table_which_have_no_further_tags_are_of_the_same_bucket(settings):
    rows = [decision(NOW - 2000, tokens=9.0, more_tags=None, source=source(0, 1)), decision(NOW, tokens=7.0)]
    write_tables(settings, decisions=rows)
    (row,) = list_buckets(settings, EVERYONE, lambda: NOW).buckets
    assert row.tokens == 7.0


def test_it_says_as_of_when(settings):
    write_tables(settings, decisions=[decision(DAY), decision(DAY + 5, user="bob")])
    assert list_buckets(settings, EVERYONE, lambda: NOW).as_of == DAY + 5


def test_decisions_without_a_quota_have_no_bucket(settings):
    nothing = {"quota": None, "burst": None, "tokens": None, "user_tag": ""}
    write_tables(settings, decisions=[decision(DAY, **nothing), decision(DAY + 1, user="bob")])
    assert set(buckets_of(settings)) == {(("user", "bob"),)}


def test_a_selection_is_of_buckets_not_of_decisions(settings):
    """A debt that was paid since is none, although decisions of that time are in the table."""
    write_tables(settings, decisions=[decision(NOW - 9000, tokens=-1.0), decision(NOW - 1, user="bob", tokens=-1.0)])
    assert set(buckets_of(settings, BucketQuery({}, in_debt=True, limit=9))) == {(("user", "bob"),)}
    assert buckets_of(settings, BucketQuery({"user": "carol"}, in_debt=False, limit=9)) == {}


def test_a_table_without_decisions_has_no_buckets(settings):
    write_tables(settings)
    assert list_buckets(settings, EVERYONE, lambda: NOW).buckets == []


def test_without_a_table_and_without_a_checkpoint_it_says_so_before_spark_is_started(settings):
    error = r"there are no buckets in .*/enforce/v\d+: enforce has not finished a batch yet"
    with pytest.raises(MutationQuotaError, match=error):
        list_buckets(settings, EVERYONE, lambda: NOW)
