"""The quota log and a cluster whose brokers enforce: the intended rates, and the differences."""

import math

import pytest

from quota.planning.cluster import (
    callback_note,
    cluster_warnings,
    differences,
    exemption_notes,
    pull_steps,
    quota_notes,
    wanted_rates,
    window_note,
)
from quota.records.entity import QuotaEntity
from quota.records.quota_log import CallbackSetting, Quota, QuotaRecord, Window
from quota.timeline.change import QuotaCancellation
from tests.support.factories import timeline

ALICE, BOB, CAROL, DEFAULT = QuotaEntity("alice"), QuotaEntity("bob"), QuotaEntity("carol"), QuotaEntity(None)


def summary(compared):
    return [(difference.entity, difference.kind, difference.wanted, difference.present) for difference in compared]


def test_an_entity_whose_only_change_was_cancelled_is_unknown_to_the_log():
    log = timeline((ALICE, 5.0, 100))
    log.add(QuotaCancellation(ALICE, 100))
    assert wanted_rates(log, 200) == {}


def test_a_missing_number_is_a_different_rate():
    assert summary(differences({ALICE: 5.0}, {ALICE: math.inf})) == [(ALICE, "changed", 5.0, math.inf)]
    ((_, kind, _, present),) = summary(differences({ALICE: 5.0}, {ALICE: math.nan}))
    assert kind == "changed"
    assert math.isnan(present)


def test_the_log_imports_the_quotas_of_a_cluster_and_removes_others():
    log = timeline((ALICE, 5.0, 0), (BOB, 7.0, 0), (CAROL, 1.0, 0), (CAROL, None, 10))
    steps = list(pull_steps({ALICE: 9.0, CAROL: 1.0, DEFAULT: 2.0}, log, 50))
    assert [(step.sign, step.record.entity, step.before, step.after) for step in steps] == [
        ("~", ALICE, Quota(5.0), Quota(9.0)),
        ("-", BOB, Quota(7.0), None),
        ("+", CAROL, None, Quota(1.0)),
        ("+", DEFAULT, None, Quota(2.0)),
    ]
    assert [step.record for step in steps] == [
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


def notes(*changes, at=0):
    return [(note.kind, str(note)) for note in quota_notes(timeline(*changes), at, Window())]


@pytest.mark.parametrize(
    ("entity", "wider"),
    [
        (QuotaEntity("alice", "app"), QuotaEntity("alice", None)),
        (QuotaEntity("alice"), QuotaEntity(None, None)),
        (QuotaEntity(None), QuotaEntity(client_id=None)),
        (QuotaEntity(client_id="app"), QuotaEntity(client_id=None)),
    ],
)
def test_the_quota_in_force_instead_of_one_in_shadow_is_the_next_level(entity, wider):
    ((kind, text),) = notes((entity, Quota(5.0, shadow=True), 0), (wider, Quota(1.0), 0))
    assert (kind, text.endswith(f"; the quota of {wider} applies there instead")) == ("shadow", True)
    ((_, text),) = notes((wider, Quota(5.0, shadow=True), 0), (entity, Quota(1.0), 0))
    assert "applies there instead" not in text


def test_a_change_that_is_not_due_is_reported_with_its_time():
    reported = notes((ALICE, Quota(5.0), 0), (ALICE, Quota(9.0, 99.0), 86_400_000), (BOB, None, 172_800_000), at=10)
    quota = "controller_mutation_rate=9.0,controller_mutation_burst=99.0"
    assert reported == [
        ("scheduled", f"user-principal 'alice': becomes {quota} from 1970-01-02T00:00:00.000Z on, and not before"),
        ("scheduled", "user-principal 'bob': is removed from 1970-01-03T00:00:00.000Z on, and not before"),
    ]


def test_on_brokers_no_client_id_quota_applies_to_clients_without_an_id():
    ((kind, text),) = notes((QuotaEntity("alice", "<none>"), Quota(5.0), 0))
    assert kind == "no_client_id"
    assert text.startswith("user-principal 'alice', client-id '<none>': means clients without a client-id here")


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(4.6e-7, "is so small"), (4.7e-7, None), (1.6e307, None), (1.7e307, "is so large"), (5e-324, "is so small")],
)
def test_rates_that_a_broker_cannot_compute_with_are_reported(rate, expected):
    """2147483.647 s are the longest throttle time; and 1.797e308 is the largest double, eleven times 1.634e307."""
    reported = notes((ALICE, Quota(rate), 0))
    assert [kind for kind, _ in reported] == (["rate"] if expected else [])
    assert all(expected in text for _, text in reported)


def test_exempt_users_are_reported_with_the_quota_that_brokers_apply():
    app = QuotaEntity(client_id="app")
    log = timeline((DEFAULT, Quota(1.0), 0), (QuotaEntity("ops"), Quota(50.0), 0), (app, Quota(2.0), 0))
    reported = [str(note) for note in exemption_notes(["ops", "admin", "ops"], wanted_rates(log, 0))]
    assert reported == [
        "user 'admin' is exempt here (quota.exempt_users); brokers apply the quota of the default user-principal to it",
        "user 'ops' is exempt here (quota.exempt_users); brokers apply the quota of user-principal 'ops' to it",
    ]
    (only_by_client,) = exemption_notes(["ops"], {app: 2.0})
    assert str(only_by_client).endswith("the quota of client-id 'app' to it")
    assert list(exemption_notes(["ops"], {ALICE: 5.0, DEFAULT: None})) == []


def test_a_custom_callback_is_reported_and_the_default_one_is_not():
    (note,) = callback_note(CallbackSetting("quota.callbacks.groups.GroupQuotaCallback"))
    assert note.kind == "callback"
    assert "quota.callbacks.groups.GroupQuotaCallback" in note.message
    assert list(callback_note(CallbackSetting("quota.callbacks.default.DefaultQuotaCallback"))) == []


def test_a_different_window_is_reported_with_the_resulting_bursts():
    (note,) = window_note(Window(), Window(100, 1))
    assert note.message.endswith("bursts are 100 s of a quota there, and 11 s here")
    assert list(window_note(Window(), Window())) == []
    assert list(window_note(Window(10, 2), Window(2, 10))) == []  # the same burst


RATE = "controller_mutation_rate="
SKIPPED = f"user-principal 'alice': skipped: {RATE}"


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ({ALICE: 5.0, QuotaEntity(None): 1e-320}, []),
        (
            {ALICE: -1.0},
            [f"{SKIPPED}-1.0 on the cluster admits nothing after the first request, and is not a valid quota here"],
        ),
        ({ALICE: math.nan}, [f"{SKIPPED}nan on the cluster admits everything, and is not a valid quota here"]),
    ],
)
def test_rates_of_a_cluster_that_are_left_out_or_apply_to_nobody_are_named(rates, expected):
    assert cluster_warnings(rates) == expected
