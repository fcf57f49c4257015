"""The quota log and a cluster whose brokers enforce: the intended rates, and the differences."""

import math

import pytest

from quota.records.entity import QuotaEntity
from quota.records.quota import Quota
from quota.records.quota_log import QuotaRecord
from quota.timeline.change import QuotaCancellation
from quota.timeline.cluster_plan import differences, pull_steps, wanted_rates
from tests.support.factories import timeline

ALICE, BOB, CAROL, DEFAULT = QuotaEntity("alice"), QuotaEntity("bob"), QuotaEntity("carol"), QuotaEntity(None)


def summary(found):
    return [(each.entity, each.kind, each.wanted, each.present) for each in found]


def test_a_cluster_should_have_the_rates_in_force_and_no_removed_ones():
    log = timeline((ALICE, 5.0, 0), (BOB, 7.0, 0), (BOB, None, 10), (CAROL, 1.0, 100))
    assert wanted_rates(log, 50) == {ALICE: 5.0, BOB: None}
    assert wanted_rates(log, 5) == {ALICE: 5.0, BOB: 7.0}
    assert wanted_rates(log, 100) == {ALICE: 5.0, BOB: None, CAROL: 1.0}


def test_a_quota_in_shadow_is_not_to_be_enforced():
    assert wanted_rates(timeline((ALICE, Quota(5.0, shadow=True), 0), (BOB, Quota(7.0, 99.0, 1000), 0)), 0) == {
        ALICE: None,
        BOB: 7.0,
    }


def test_an_entity_whose_only_change_was_cancelled_is_unknown_to_the_log():
    log = timeline((ALICE, 5.0, 100))
    log.add(QuotaCancellation(ALICE, 100))
    assert wanted_rates(log, 200) == {}


@pytest.mark.parametrize(("name", "fits"), [("x" * 32_767, True), ("x" * 32_768, False), ("ж" * 16_384, False)])
def test_a_name_that_the_protocol_cannot_carry_is_omitted(name, fits):
    """The order is that of the bytes in UTF-8."""
    assert bool(wanted_rates(timeline((QuotaEntity("u", name), 5.0, 0)), 0)) is fits


def test_differences_are_reported_by_kind_in_a_stable_order():
    dora, erin = QuotaEntity("dora"), QuotaEntity(client_id="app")
    wanted = {ALICE: 5.0, BOB: None, CAROL: 1.0, dora: 2.0, QuotaEntity("removed there, too"): None}
    present = {erin: 3.0, dora: 2.0, BOB: 7.0, ALICE: 9.0, DEFAULT: 4.0}
    assert summary(differences(wanted, present)) == [
        (erin, "only_there", None, 3.0),
        (ALICE, "changed", 5.0, 9.0),
        (BOB, "not_removed", None, 7.0),
        (CAROL, "missing", 1.0, None),
        (DEFAULT, "only_there", None, 4.0),
    ]


def test_a_missing_number_is_a_different_rate():
    assert summary(differences({ALICE: 5.0}, {ALICE: math.inf})) == [(ALICE, "changed", 5.0, math.inf)]
    ((_, kind, _, present),) = summary(differences({ALICE: 5.0}, {ALICE: math.nan}))
    assert kind == "changed"
    assert math.isnan(present)


def test_a_difference_is_a_step_of_a_diff_in_both_directions():
    changed, missing, removed = differences({ALICE: 5.0, BOB: 7.0, CAROL: None}, {ALICE: 9.0, CAROL: 1.0})
    rate = "controller_mutation_rate"
    assert [str(each.step) for each in (changed, missing, removed)] == [
        f"~ user-principal 'alice': {rate}=9.0 -> {rate}=5.0",
        f"+ user-principal 'bob': {rate}=7.0",
        f"- user-principal 'carol': {rate}=1.0",
    ]
    assert [str(each.drift) for each in (changed, missing, removed)] == [
        f"~ user-principal 'alice': {rate}=5.0 -> {rate}=9.0",
        f"- user-principal 'bob': {rate}=7.0",
        f"+ user-principal 'carol': {rate}=1.0",
    ]
    assert changed.step.record == QuotaRecord(ALICE, 5.0)
    assert removed.step.record == QuotaRecord(CAROL, None)


def test_the_log_imports_the_quotas_of_a_cluster_and_removes_others():
    log = timeline((ALICE, 5.0, 0), (BOB, 7.0, 0), (CAROL, 1.0, 0), (CAROL, None, 10))
    steps = list(pull_steps({ALICE: 9.0, CAROL: 1.0, DEFAULT: 2.0}, log, 50))
    assert [(each.sign, each.record.entity, each.before, each.after) for each in steps] == [
        ("~", ALICE, Quota(5.0), Quota(9.0)),
        ("-", BOB, Quota(7.0), None),
        ("+", CAROL, None, Quota(1.0)),
        ("+", DEFAULT, None, Quota(2.0)),
    ]
    assert [each.record for each in steps] == [
        QuotaRecord(ALICE, 9.0, altered_configs=["controller_mutation_rate"]),
        QuotaRecord(BOB, None),
        QuotaRecord(CAROL, 1.0),
        QuotaRecord(DEFAULT, 2.0),
    ]


def test_options_unknown_to_brokers_stay_when_a_rate_is_imported():
    log = timeline((ALICE, Quota(5.0, 99.0, 1000), 0), (BOB, Quota(7.0, 50.0), 0))
    (step,) = pull_steps({ALICE: 9.0, BOB: 7.0}, log, 0)
    assert (step.before, step.after) == (Quota(5.0, 99.0, 1000), Quota(9.0, 99.0, 1000))
    assert step.record == QuotaRecord(ALICE, 9.0, 99.0, 1000, altered_configs=["controller_mutation_rate"])


def test_a_quota_stays_in_shadow_unless_the_cluster_enforces_one():
    log = timeline((ALICE, Quota(5.0, shadow=True), 0), (BOB, Quota(7.0, shadow=True), 0))
    (step,) = pull_steps({BOB: 8.0}, log, 0)
    assert (step.record.entity, step.after) == (BOB, Quota(8.0))
    assert step.record.altered_configs == ["controller_mutation_rate", "shadow"]


def test_a_rate_of_zero_is_shown_as_one():
    """A migrated cluster may have it; it is no missing rate."""
    (found,) = differences({ALICE: 7.0}, {ALICE: 0.0})
    assert str(found.drift) == (
        "~ user-principal 'alice': controller_mutation_rate=7.0 -> controller_mutation_rate=0.0"
    )


def test_an_empty_name_is_no_difference():
    """Brokers refuse to set or to remove it."""
    nobody = {QuotaEntity(""): 1.0, QuotaEntity(client_id=""): 2.0, QuotaEntity("alice", ""): 3.0}
    assert differences({ALICE: 7.0}, {ALICE: 7.0, **nobody}) == []
    assert list(pull_steps(nobody, timeline(), 0)) == []


def test_scheduled_changes_stay_when_a_cluster_is_imported():
    """`quotas apply` cancels them."""
    log = timeline((ALICE, 5.0, 0), (ALICE, 9.0, 100), (BOB, 1.0, 100))
    assert list(pull_steps({ALICE: 5.0}, log, 50)) == []


@pytest.mark.parametrize("rate", [math.nan, math.inf, 0.0, -1.0])
def test_quotas_invalid_here_change_nothing(rate):
    """A broker with such a rate admits everything or nothing; the log's own quota is not removed for it."""
    assert list(pull_steps({ALICE: rate, BOB: rate}, timeline((ALICE, 5.0, 0)), 0)) == []
