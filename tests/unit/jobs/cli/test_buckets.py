"""`buckets list`, with a list in place of the audit's table, and `buckets describe`."""

import json

import pytest
from msgspec.structs import replace

from jobs.buckets import listing
from quota.kafka.timing import now_ms
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from schemas.documents.quotas import Buckets, ListedBucket
from tests.support.programs import run
from tests.support.tables import decision, write_tables

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


SECOND = 1000


def test_a_tenant_sees_what_it_may_do_when_500_fit_who_used_the_bucket_and_what_is_coming(
    topic, command, settings, tmp_path
):
    """alice has 1 a second, and her clients left -400 eight seconds ago; her client x has another bucket."""
    now = now_ms()
    quota = QuotaRecord(QuotaEntity("alice"), 1.0, 600.0, max_request_mutations=400)
    topic.write([quota, QuotaRecord(QuotaEntity("alice"), 10.0, effective_at=now + 3_600_000)], now - 7_200_000)
    charged = {"user": "alice", "user_tag": "alice", "client_tag": "", "more_tags": [], "quota": 1.0, "burst": 600.0}
    rows = [
        decision(now - 9 * SECOND, client="etl", admitted=[750], tokens=0.0, **charged),
        *[decision(now - 9 * SECOND, client=f"c{number}", admitted=[1], tokens=0.0, **charged) for number in range(10)],
        decision(now - 8 * SECOND, client="app", admitted=[250], tokens=-400.0, **charged),
        decision(now - 7 * SECOND, client="x", admitted=[999], tokens=-9.0, **charged | {"client_tag": "x"}),
    ]
    write_tables(settings, decisions=rows)
    described = ("buckets", "describe", "--user", "alice", "--set", f"storage.root={tmp_path}", "--mutations", "500")
    lines = [" ".join(line.split()) for line in command(*described)[0].split(":", 1)[1].splitlines()]
    said = " ".join(lines)
    assert "of user 'alice', shared by all their client-ids" in said
    assert "Now: none, in debt with -39" in said
    assert "500: fit in 14 min" in said
    assert "and a topic may cost at most 400 of them" in said
    assert "Last hour: 1,010 mutations, of 'etl' 74%, 'app' 25%, 'c0' 0%" in said
    assert "'c7' 0% and 2 more" in said
    assert "Scheduled: user-principal 'alice' becomes controller_mutation_rate=10.0 from" in said

    topic.write([replace(quota, shadow=True)], now - 7_100_000)
    assert "shadow mode admits all, and it ends in 6 min" in " ".join(command(*described)[0].split())
    document = json.loads(command(*described, "-o", "json")[0])
    assert document["bucket"] == {"user": "alice"}
    assert 880_000 < document["fits_in_ms"] <= 893_000
    assert document["last_hour"] == {"etl": 750, "app": 250} | {f"c{number}": 1 for number in range(10)}


@pytest.mark.usefixtures("topic")
def test_a_tenant_without_a_quota_is_told_so(command):
    assert command("buckets", "describe", "--user", "bob", "--mutations", "9")[0].split() == (
        ["Now:", "unlimited:", "no", "quota", "applies"]
    )
