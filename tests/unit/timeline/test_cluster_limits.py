"""Warnings before quotas are pushed: quotas that brokers cannot enforce, or enforce differently."""

import math

import pytest

from quota.records.callback import CallbackSetting
from quota.records.entity import QuotaEntity
from quota.records.quota import Quota, Window
from quota.timeline.cluster_limits import callback_note, exemption_notes, quota_notes, rate_warnings, window_note
from quota.timeline.cluster_plan import wanted_rates
from tests.support.factories import timeline

ALICE, BOB, DEFAULT = QuotaEntity("alice"), QuotaEntity("bob"), QuotaEntity(None)
KAFKAS = Window()


def notes(*changes, at=0, window=KAFKAS):
    return [(each.kind, str(each)) for each in quota_notes(timeline(*changes), at, window)]


def test_nothing_is_reported_for_quotas_that_a_broker_can_enforce():
    entities = (ALICE, DEFAULT, QuotaEntity("дж", "app"), QuotaEntity(client_id=None))
    assert notes(*((entity, Quota(5.0), 0) for entity in entities)) == []


def test_a_burst_and_a_bound_on_debt_are_reported_with_the_brokers_values():
    assert notes((ALICE, Quota(5.0, 500.0, 60_000), 0), window=Window(2, 10)) == [
        ("burst", "user-principal 'alice': has a burst of 500 here, and of 100 there, which follows from the rate"),
        ("max_debt_ms", "user-principal 'alice': has debts of 60000 ms at most here, and of any length there"),
    ]


def test_a_quota_in_shadow_is_reported_with_the_one_in_force_instead():
    ((kind, text),) = notes((ALICE, Quota(5.0, 99.0, 1000, shadow=True), 0))
    assert (kind, text) == (
        "shadow",
        "user-principal 'alice': is in shadow, and not pushed, since brokers would enforce it",
    )
    ((_, text),) = notes((ALICE, Quota(5.0, shadow=True), 0), (DEFAULT, Quota(1.0), 0))
    assert text.endswith("enforce it; the quota of the default user-principal applies there instead")


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
    ((_, text),) = notes((entity, Quota(5.0, shadow=True), 0), (wider, Quota(1.0), 0))
    assert text.endswith(f"; the quota of {wider} applies there instead")
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
    ("name", "expected"),
    [("<default>", "which brokers with ZooKeeper mistake"), ("ж" * 16_384, "is not pushed: Kafka's")],
)
def test_names_that_brokers_read_differently_or_not_at_all_are_reported(name, expected):
    ((kind, text),) = notes((QuotaEntity(name), Quota(5.0), 0))
    assert kind == "name"
    assert expected in text


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
    reported = [str(each) for each in exemption_notes(["ops", "admin", "ops"], wanted_rates(log, 0))]
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
            {ALICE: 0.0},
            [f"{SKIPPED}0.0 on the cluster admits nothing after the first request, and is not a valid quota here"],
        ),
        (
            {ALICE: -1.0},
            [f"{SKIPPED}-1.0 on the cluster admits nothing after the first request, and is not a valid quota here"],
        ),
        ({ALICE: math.nan}, [f"{SKIPPED}nan on the cluster admits everything, and is not a valid quota here"]),
        (
            {QuotaEntity(""): 1.0, QuotaEntity(client_id=""): 0.0},
            [
                f"client-id '': left out: {RATE}0.0 on the cluster applies to nobody, since a name is empty",
                f"user-principal '': left out: {RATE}1.0 on the cluster applies to nobody, since a name is empty",
            ],
        ),
        (
            {QuotaEntity("CN%3Dfrank"): 5.0},
            ["user-principal 'CN%3Dfrank': names are not percent-encoded; did you mean 'CN=frank'?"],
        ),
    ],
)
def test_rates_of_a_cluster_that_are_left_out_or_apply_to_nobody_are_named(rates, expected):
    assert rate_warnings(rates) == expected
