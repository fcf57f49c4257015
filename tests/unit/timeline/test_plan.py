"""Plans from the current quotas to the intended ones."""

import pytest

from quota.errors import BadInput
from quota.records.entity import QuotaEntity
from quota.records.quota import Quota
from quota.records.quota_log import QuotaRecord
from quota.timeline.change import QuotaChange
from quota.timeline.plan import plan, rollback_plan
from tests.support.factories import timeline

ALICE, BOB, CAROL = QuotaEntity("alice"), QuotaEntity("bob"), QuotaEntity("carol")


def summary(steps):
    return [(step.sign, step.record.entity, step.before, step.after) for step in steps]


def test_a_plan_sets_changes_and_removes_and_leaves_the_rest_alone():
    present = timeline((ALICE, 5.0, 0), (BOB, 7.0, 0), (CAROL, 1.0, 0))
    wanted = [QuotaRecord(ALICE, 5.0, comment="another comment alone is no change"), QuotaRecord(BOB, 7.0, 99.0)]
    new = QuotaEntity("dora")
    assert summary(plan([*wanted, QuotaRecord(new, 2.0)], present, 10)) == [
        ("~", BOB, Quota(7.0), Quota(7.0, 99.0)),
        ("-", CAROL, Quota(1.0), None),
        ("+", new, None, Quota(2.0)),
    ]


def test_a_scheduled_plan_starts_from_the_quotas_in_force_then():
    present = timeline((ALICE, 5.0, 0), (ALICE, 7.0, 100))
    assert summary(plan([QuotaRecord(ALICE, 7.0)], present, 99)) == [
        ("~", ALICE, Quota(5.0), Quota(7.0)),
        ("-", ALICE, Quota(7.0), None),
    ]
    assert plan([QuotaRecord(ALICE, 7.0)], present, 100) == []


def test_a_plan_cancels_scheduled_changes():
    """The file is the complete set of quotas, including scheduled ones."""
    (step,) = plan([QuotaRecord(ALICE, 5.0)], timeline((ALICE, 5.0, 0), (ALICE, 7.0, 100)), 10)
    assert (step.before, step.after, step.record) == (
        Quota(7.0),
        None,
        QuotaRecord(ALICE, 7.0, effective_at=100, cancelled=True),
    )


def test_a_plan_schedules_the_files_changes_and_leaves_equal_ones():
    present = timeline((ALICE, 5.0, 0), (ALICE, 7.0, 100), (BOB, 9.0, 200))
    equal = [QuotaRecord(ALICE, 5.0), QuotaRecord(ALICE, 7.0, effective_at=100)]
    assert plan([*equal, QuotaRecord(BOB, 9.0, effective_at=200)], present, 10) == []
    steps = plan([*equal, QuotaRecord(BOB, None, effective_at=300)], present, 10)
    assert [str(step) for step in steps] == [
        "- user-principal 'bob': controller_mutation_rate=9.0 (scheduled for 1970-01-01T00:00:00.200Z)",
        "- user-principal 'bob': removed (scheduled for 1970-01-01T00:00:00.300Z)",
    ]
    assert [(step.record.effective_at, step.record.cancelled) for step in steps] == [(200, True), (300, False)]


def test_a_change_scheduled_for_the_past_is_rejected():
    with pytest.raises(BadInput, match=r"'alice': effective_at 1970-01-01T00:00:00\.100Z is not after"):
        plan([QuotaRecord(ALICE, 7.0, effective_at=100)], timeline((ALICE, 5.0, 0)), 100)


def test_a_rollback_restores_earlier_quotas_and_earlier_scheduled_changes():
    """At 50 alice had 5, bob's 9 was scheduled for 1000 and dora's 2 for 3000.

    Since then alice got 7, carol 1, bob another 8 for 1000, alice 8 for 2000, and dora's was cancelled.
    """
    dora = QuotaEntity("dora")
    past = timeline((ALICE, 5.0, 0), (BOB, 9.0, 1000), (dora, 2.0, 3000))
    quotas = timeline((ALICE, 5.0, 0), (BOB, 9.0, 1000), (ALICE, 7.0, 60), (CAROL, 1.0, 70), (BOB, 8.0, 1000))
    quotas.add(QuotaChange(ALICE, Quota(8.0), 2000))
    steps = rollback_plan(past, 50, quotas, 100)
    assert summary(steps) == [
        ("~", ALICE, Quota(7.0), Quota(5.0)),
        ("-", CAROL, Quota(1.0), None),
        ("-", ALICE, Quota(8.0), None),
        ("+", BOB, None, Quota(9.0)),
        ("+", dora, None, Quota(2.0)),
    ]
    assert steps[2].record == QuotaRecord(ALICE, 8.0, effective_at=2000, cancelled=True)
    assert [step.record.effective_at for step in steps[3:]] == [1000, 3000]
    assert [(each.entity, each.quota.rate) for each in quotas.scheduled(100)] == [(BOB, 8.0), (ALICE, 8.0)]


BURST = QuotaChange(ALICE, Quota(5.0, 50.0), 1000, ("controller_mutation_burst",), scheduled=True)


def with_burst(*changes):
    quotas = timeline(*changes)
    quotas.add(BURST)
    return quotas


@pytest.mark.parametrize(
    ("now", "later", "steps"),
    [
        (5.0, 5.0, []),
        (20.0, 5.0, [(None, Quota(20.0)), (1000, Quota(5.0, 50.0))]),
        (20.0, 20.0, [(None, Quota(20.0)), (1000, Quota(20.0, 50.0))]),
    ],
)
def test_a_scheduled_option_is_set_as_a_whole_only_where_the_file_changes_the_rest(now, later, steps):
    """Alice has 5 and is to have a burst of 50 from 1000 on; the file has a rate now, and one from then on."""
    wanted = [QuotaRecord(ALICE, now), QuotaRecord(ALICE, later, 50.0, effective_at=1000)]
    found = [step.record for step in plan(wanted, with_burst((ALICE, 5.0, 0)), 10)]
    assert [(each.effective_at, each.quota) for each in found] == steps
    assert all(each.altered_configs is None for each in found)


def test_a_rollback_restores_a_scheduled_option_as_an_option():
    """Since then alice got 20; in the second case the option was cancelled, too."""
    past = with_burst((ALICE, 5.0, 0))
    (rate,) = rollback_plan(past, 50, with_burst((ALICE, 5.0, 0), (ALICE, 20.0, 60)), 100)
    assert rate.record == QuotaRecord(ALICE, 5.0)
    cancelled = timeline((ALICE, 5.0, 0), (ALICE, 20.0, 60))
    assert [step.record for step in rollback_plan(past, 50, cancelled, 100)] == [
        QuotaRecord(ALICE, 5.0),
        QuotaRecord(ALICE, 5.0, 50.0, effective_at=1000, altered_configs=["controller_mutation_burst"]),
    ]
