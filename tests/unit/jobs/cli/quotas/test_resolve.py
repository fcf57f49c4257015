"""The quota that applies to a client, and the eight levels."""

import pytest

from jobs.cli.quotas.resolve import print_resolved, resolved_quota
from quota.admission.policy import Policy
from quota.admission.resolve import resolve_quota
from quota.callbacks.timeline import CallbackTimeline
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.settings import Settings
from quota.timeline.change import to_change

ALICE = QuotaEntity("alice")
RECORDS = [QuotaRecord(ALICE, 5.0, 1000.0, 60_000), QuotaRecord(ALICE, 7.5, 1000.0, None, True, 80)]


@pytest.fixture
def resolved(capsys):
    quotas = CallbackTimeline(Settings().quota.callbacks)
    for at, record in enumerate(RECORDS, 1000):
        quotas.add(to_change(record, at))

    def lines(user, **options):
        settings = Settings(quota=options)
        resolution = resolve_quota(user, "app", 2000, quotas, Policy.of(settings))
        levels = quotas.timeline.levels(user, "app", 2000)
        window = settings.quota.window
        print_resolved(resolved_quota(resolution, levels, window, 2000), window)
        return capsys.readouterr().out.splitlines()

    return lines


def test_the_quota_that_applies_precedes_its_level(resolved):
    assert resolved("alice") == [
        "Quota:        7.5 mutations/s, set for user-principal 'alice' since",
        "              1970-01-01T00:00:01.001Z",
        "Burst:        1000 mutations at once (its own)",
        "Topic limit:  80 mutations (max_request_mutations)",
        "Bucket:       of user 'alice', shared by all their client-ids",
        "Shadow:       only reported: requests over the quota are admitted",
        "",
        "LEVEL  USER       CLIENT-ID  RATE/S  BURST  MAX/TOPIC  SINCE",
        "    1  alice      app             -      -          -  -",
        "    2  alice      <default>       -      -          -  -",
        "    3  alice      -             7.5   1000         80  1970-01-01T00:00:01.001Z",
        "    4  <default>  app             -      -          -  -",
        "    5  <default>  <default>       -      -          -  -",
        "    6  <default>  -               -      -          -  -",
        "    7  -          app             -      -          -  -",
        "    8  -          <default>       -      -          -  -",
    ]


def test_a_client_without_a_quota_is_unlimited(resolved):
    assert resolved("bob")[0] == "Quota:        unlimited: none of the eight levels has a quota"
    assert resolved("bob", exempt_users=["bob"]) == ["Quota:        unlimited: the user is exempt (quota.exempt_users)"]
