"""From the quotas that are set to those that are wanted."""

from quota.change import CancelRecord, QuotaChange, QuotaRecord
from quota.entity import QuotaEntity
from quota.plan import back_to, merged, plan
from quota.terms import Quota
from tests.factories import timeline

ALICE, BOB, CAROL = QuotaEntity("alice"), QuotaEntity("bob"), QuotaEntity("carol")


def told(steps):
    return [(step.sign, step.record.entity, step.before, step.after) for step in steps]


def test_a_plan_sets_changes_and_removes_and_leaves_the_rest_alone():
    present = timeline((ALICE, 5.0, 0), (BOB, 7.0, 0), (CAROL, 1.0, 0))
    wanted = [QuotaRecord(ALICE, 5.0, comment="another comment alone is no change"), QuotaRecord(BOB, 7.0, 99.0)]
    new = QuotaEntity("dora")
    assert told(plan([*wanted, QuotaRecord(new, 2.0)], present, 10)) == [
        ("~", BOB, Quota(7.0), Quota(7.0, 99.0)),
        ("-", CAROL, Quota(1.0), None),
        ("+", new, None, Quota(2.0)),
    ]


def test_a_plan_for_later_starts_from_what_holds_then():
    present = timeline((ALICE, 5.0, 0), (ALICE, 7.0, 100))
    assert told(plan([QuotaRecord(ALICE, 7.0)], present, 99)) == [("~", ALICE, Quota(5.0), Quota(7.0))]
    assert plan([QuotaRecord(ALICE, 7.0)], present, 100) == []


def test_going_back_sets_what_was_and_takes_back_what_was_scheduled_since():
    """At 50 alice had 5 and nothing was scheduled but bob's 9 at 1000; since then alice got 7, carol 1, and more."""
    quotas = timeline((ALICE, 5.0, 0), (ALICE, 7.0, 60), (CAROL, 1.0, 70), (BOB, 9.0, 1000), (ALICE, 8.0, 2000))
    made = {(BOB, 1000): 40, (ALICE, 2000): 80}
    steps = back_to(50, quotas, made, 100)
    assert told(steps) == [
        ("~", ALICE, Quota(7.0), Quota(5.0)),
        ("-", CAROL, Quota(1.0), None),
        ("-", ALICE, Quota(8.0), None),
    ]
    assert steps[-1].record == CancelRecord(ALICE, 2000)
    assert quotas.scheduled(100) == [QuotaChange(BOB, Quota(9.0), 1000), QuotaChange(ALICE, Quota(8.0), 2000)]


def changed(rate, *configs, **options):
    return QuotaRecord(ALICE, rate, **options, altered_configs=list(configs))


def test_what_was_changed_at_once_is_merged_in_the_logs_order():
    """From 5: one sets a burst, another, who has not seen it, a bound on debt, a third the rate."""
    records = [
        QuotaRecord(ALICE, 5.0),
        changed(5.0, "controller_mutation_burst", controller_mutation_burst=9.0),
        changed(5.0, "max_debt_ms", max_debt_ms=7),
        changed(6.0, "controller_mutation_rate"),
    ]
    assert merged(records) == Quota(6.0, 9.0, 7)
    assert merged([*records, changed(6.0, controller_mutation_burst=9.0, max_debt_ms=7)]) == Quota(6.0, 9.0, 7)


def test_what_is_set_as_a_whole_or_removed_takes_the_place_of_all_before():
    before = [QuotaRecord(ALICE, 5.0), changed(5.0, "shadow", shadow=True)]
    assert merged([*before, QuotaRecord(ALICE, 7.0)]) == Quota(7.0)
    assert merged([*before, changed(None, "controller_mutation_rate")]) is None
    assert merged([*before, changed(None, "controller_mutation_rate"), changed(None)]) is None


def test_an_option_of_a_quota_that_is_gone_does_not_set_it_again():
    gone = [QuotaRecord(ALICE, 5.0), changed(None, "controller_mutation_rate")]
    assert merged([*gone, changed(5.0, "shadow", shadow=True)]) is None
    assert merged([*gone, changed(6.0, "controller_mutation_rate")]) == Quota(6.0)


def test_what_compaction_has_left_is_taken_whole():
    assert merged([changed(6.0, max_debt_ms=7)]) == Quota(6.0, None, 7)
    assert merged([changed(6.0, "max_debt_ms", max_debt_ms=7)]) == Quota(6.0, None, 7)
