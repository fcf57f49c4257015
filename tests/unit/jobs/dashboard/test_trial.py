"""A quota tried out, and the command that sets it: Q = 5 mutations a second, B = 55; the bucket of alice."""

import pytest
from msgspec.structs import replace

from jobs.dashboard.trial import WantedQuota, try_quota
from quota.algorithms.token_bucket import TokenBucket
from quota.records import codec
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Quota, QuotaLogEntry, QuotaRecord, Window
from quota.settings import load_settings
from quota.whatif.effects import Totals
from tests.support.factories import START, decide_all, decided, resolved
from tests.unit.jobs.dashboard.conftest import ALICE, FIVE

SETTINGS = load_settings(environment={})

_, DECISIONS = decide_all(
    resolved(60, at=START, offset=0),  # 55 - 60 = -5
    resolved(10, at=START + 500, offset=1),  # rejected at -2.5: 500 ms
    resolved(10, at=START + 2000, offset=2, request_id="again"),  # 5 - 10 = -5
    algorithm=TokenBucket(Window()),
)


def tried(quota, *decisions, entity=ALICE, entries=(FIVE,)):
    return try_quota([codec.encode(decision) for decision in decisions], entries, SETTINGS, entity, quota)


@pytest.mark.parametrize(
    ("quota", "decisions", "totals"),
    [
        # 110 - 60 = 50, at most 110; no client is throttled
        (Quota(10.0), DECISIONS, Totals(3, 0, 80, 0, 0.0, newly_admitted=10, newly_rejected=0, peak=70)),
        # 11 - 60 = -49; at 2 s it is -47, which takes 47 s: throttled from 0.5 s to 49 s
        (Quota(1.0), DECISIONS, Totals(3, 2, 60, 20, 48.5, newly_admitted=0, newly_rejected=10, peak=60)),
        # a bucket begins in the state before its first decision: at K = -2.5, 10 are rejected with 2.5 s to wait
        (Quota(1.0), DECISIONS[1:2], Totals(1, 1, 0, 10, 2.5, newly_admitted=0, newly_rejected=0, peak=0)),
    ],
)
def test_requests_are_decided_again_as_if_the_quota_had_been_in_force(quota, decisions, totals):
    assert tried(quota, *decisions).tried == totals


def test_tenants_that_are_not_affected_are_omitted():
    bob = replace(decided(7, rate=None, at=START, offset=9), user="bob")
    trial = tried(Quota(10.0), *DECISIONS, bob)
    assert (trial.requests, trial.recorded.requests) == (4, 3)
    assert [(sender.user, sender.load.requests) for sender in trial.senders] == [("alice", 3)]


def test_a_more_specific_quota_precedes_the_tried_one():
    trial = tried(Quota(1.0), *DECISIONS, entity=QuotaEntity(None))
    assert (trial.requests, trial.recorded.requests) == (3, 0)


def test_a_quota_takes_over_from_a_less_specific_one():
    """They were decided by the default, and in a bucket of the same tags."""
    default = QuotaLogEntry(0, START - 1000, QuotaRecord(QuotaEntity(None), 5.0))
    by_default = [replace(decision, quota_entity=QuotaEntity(None)) for decision in DECISIONS]
    trial = tried(Quota(10.0), *by_default, entries=(default,))
    assert (trial.recorded.requests, trial.tried.newly_admitted) == (3, 10)


def test_without_requests_the_trial_is_empty():
    trial = tried(Quota(10.0))
    assert (trial.since, trial.requests, trial.tried.requests, trial.senders) == (None, 0, 0, [])


ALTER = "mutation-quota quotas alter"


@pytest.mark.parametrize(
    ("entity", "options"),
    [
        (QuotaEntity("alice"), "--user=alice"),
        (QuotaEntity(None), "--user-defaults"),
        (QuotaEntity("O=Acme; rm -r", None), "'--user=O=Acme; rm -r' --client-defaults"),
        (QuotaEntity(client_id="-x"), "--client=-x"),
    ],
)
def test_the_entity_is_quoted_for_a_shell(entity, options):
    assert WantedQuota(entity, 5).command(None) == f"{ALTER} {options} --add-config controller_mutation_rate=5"


def test_a_burst_that_is_not_wanted_is_deleted_if_it_is_set():
    wanted = WantedQuota(QuotaEntity("alice"), 5)
    with_burst = f"{ALTER} --user=alice --add-config controller_mutation_rate=5"
    assert wanted.command(Quota(1.0)) == with_burst
    assert wanted.command(Quota(1.0, 200.0)) == f"{with_burst} --delete-config controller_mutation_burst"


def test_a_quota_is_removed_only_if_there_is_one():
    wanted = WantedQuota(QuotaEntity("alice"), None)
    assert wanted.command(Quota(1.0)) == f"{ALTER} --user=alice --delete-config controller_mutation_rate"
    assert wanted.command(None) is None
