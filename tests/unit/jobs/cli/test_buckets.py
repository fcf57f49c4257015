"""`buckets list`, with a list in place of the audit's table."""

from jobs.buckets import listing
from schemas.documents.quotas import Buckets, ListedBucket
from tests.support.programs import run

NOON = 1_728_043_200_000
IN_DEBT = ListedBucket({"user": "alice"}, -60.0, NOON - 7000, -25.0, 5.0, 55.0, None, True, 5000, 16_000)
FULL = ListedBucket({"group": "pay"}, 8.0, NOON, 8.0, 0.5, 8.0, None, False, 0, 0)


def test_a_row_has_the_values_that_operators_need(monkeypatch):
    monkeypatch.setattr(listing, "list_buckets", lambda *_, **__: Buckets([IN_DEBT, FULL], 3, NOON))
    listed = run("buckets", "list")
    assert [" ".join(line.split()) for line in listed.stdout.splitlines()] == [
        "BUCKET TOKENS BURST RATE/S DEBT ENDS IN FULL IN CHANGED",
        "user 'alice' -25 55 5 5 s 16 s 2024-10-04T11:59:53.000Z",
        "group 'pay' 8.0 8 0.5 0 s 0 s 2024-10-04T12:00:00.000Z",
    ]
    assert listed.stderr.splitlines() == [
        "as of 2024-10-04T12:00:00.000Z, the newest decision in the audit's table",
        "and 3 more (--limit)",
    ]
