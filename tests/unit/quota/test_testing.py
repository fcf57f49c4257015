"""The harness with which authors test their callbacks."""

import doctest

import pytest

import quota.testing
from quota.callbacks import DefaultQuotaCallback, PartitionProportionalCallback, Quota, QuotaEntity
from quota.errors import BadInput, BadRecord
from quota.records.decision import Outcome
from quota.records.quota_log import QuotaRecord, ResetRecord
from quota.testing import CallbackHarness
from tests.support.callbacks import Failing, NoCallback, Recording

ALICE = QuotaEntity("alice")


def rate(resolution):
    return resolution.limit and resolution.limit.quota.rate


def test_its_example_runs():
    failed, examples = doctest.testmod(quota.testing)
    assert (failed, examples > 0) == (0, True)


@pytest.mark.parametrize(
    ("callback", "configs", "reason"),
    [
        (NoCallback, {}, "tests.support.callbacks.NoCallback: TypeError: not a ClientQuotaCallback"),
        (Failing, {"bad": "1"}, "tests.support.callbacks.Failing: ValueError: bad is bad"),
        (type("Local", (DefaultQuotaCallback,), {}), {}, "AttributeError: .* has no attribute 'Local'"),
    ],
)
def test_it_checks_a_callback_as_the_jobs_do(callback, configs, reason):
    with pytest.raises(BadInput, match=reason):
        CallbackHarness(callback, configs)


def test_the_callback_receives_the_log_up_to_the_time_of_a_request():
    harness = CallbackHarness(PartitionProportionalCallback, {"minimum.share": "0.1"})
    harness.set_quota(QuotaEntity(None), Quota(100.0))
    harness.advance(seconds=10)
    harness.set_cluster({"alice.a": [0, 1, None], "bob.b": [0]})
    harness.advance(seconds=10)
    harness.configure({"minimum.share": "0.5"})
    assert [rate(harness.resolve("bob", "app", at=at)) for at in (0, 9_999, 10_000, 20_000)] == [100, 100, 25, 50]
    assert rate(harness.resolve("alice", "app")) == 75


def test_it_decides_by_the_token_bucket():
    """5 mutations/s: a burst of 55, of which 60 leave a debt of 5, over after a second; a reset forgives it at once."""
    harness = CallbackHarness(DefaultQuotaCallback)
    harness.set_quota(ALICE, Quota(5.0))
    admitted, rejected = harness.decide("alice", "app", 60), harness.decide("alice", "app", 1, 1)
    assert (admitted.outcome, admitted.tokens, rejected.outcome, rejected.throttle_time_ms) == (
        Outcome.ADMITTED,
        -5.0,
        Outcome.REJECTED,
        1000,
    )
    assert (admitted.decision_id, rejected.decision_id) == ("mutation-requests-0-0", "mutation-requests-0-1")
    assert harness.decide("alice", "app", 1, at=999).outcome is Outcome.REJECTED
    assert harness.decide("bob", "app", 1_000).outcome is Outcome.ADMITTED
    harness.write(ResetRecord({"user": "alice"}))
    assert harness.decide("alice", "app", 1).tokens == 54


def test_an_exception_of_a_callback_is_the_error_of_the_request():
    harness = CallbackHarness(Failing)
    harness.set_quota(ALICE, Quota(1.0))
    with pytest.raises(BadRecord, match=r"callback: .*Failing\.update_quota raised ValueError: 1\.0"):
        harness.decide("alice", "app", 1)
    assert harness.decide("bob", "app", 1).outcome is Outcome.ADMITTED


def test_a_record_that_the_jobs_would_skip_is_an_error():
    harness = CallbackHarness(DefaultQuotaCallback)
    with pytest.raises(BadRecord, match="controller_mutation_rate: expected float > 0"):
        harness.write(QuotaRecord(ALICE, -1.0))


def test_instances_are_closed():
    Recording.calls.clear()
    with CallbackHarness(Recording) as harness:
        harness.resolve("alice", "app")
        Recording.calls.clear()
    assert Recording.calls == [("close",)]
