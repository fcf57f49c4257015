"""What is told before quotas are pushed: what brokers cannot hold, or hold otherwise."""

import pytest

from quota.records.callback import CallbackSetting
from quota.records.entity import QuotaEntity
from quota.records.quota import Quota, Window
from quota.timeline.change import QuotaChange
from quota.timeline.cluster_limits import callback_note, exemption_notes, quota_notes, window_note
from quota.timeline.cluster_plan import wanted_rates
from quota.timeline.timeline import QuotaTimeline

ALICE, BOB, DEFAULT = QuotaEntity("alice"), QuotaEntity("bob"), QuotaEntity(None)
KAFKAS = Window()


def quotas(*changes):
    """A timeline of changes: entity, quota, moment."""
    found = QuotaTimeline()
    for entity, quota, moment in changes:
        found.add(QuotaChange(entity, quota, moment))
    return found


def notes(*changes, at=0, window=KAFKAS):
    return [(each.kind, str(each)) for each in quota_notes(quotas(*changes), at, window)]


def test_nothing_is_told_of_what_a_broker_holds():
    entities = (ALICE, DEFAULT, QuotaEntity("дж", "app"), QuotaEntity(client_id=None))
    assert notes(*((entity, Quota(5.0), 0) for entity in entities)) == []


def test_a_burst_and_a_bound_on_debt_are_told_with_what_holds_instead():
    assert notes((ALICE, Quota(5.0, 500.0, 60_000), 0), window=Window(2, 10)) == [
        ("burst", "user-principal 'alice': has a burst of 500 here, and of 100 there, which follows from the rate"),
        ("max_debt_ms", "user-principal 'alice': has debts of 60000 ms at most here, and of any length there"),
    ]


def test_a_quota_in_shadow_is_told_with_the_one_that_holds_in_its_place():
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
        (QuotaEntity("alice", None), QuotaEntity("alice")),
        (QuotaEntity("alice"), QuotaEntity(None, None)),
        (QuotaEntity(None, "app"), QuotaEntity(client_id="app")),
        (QuotaEntity(None), QuotaEntity(client_id=None)),
        (QuotaEntity(client_id="app"), QuotaEntity(client_id=None)),
    ],
)
def test_what_holds_in_place_of_one_in_shadow_is_the_next_of_the_eight_levels(entity, wider):
    ((_, text),) = notes((entity, Quota(5.0, shadow=True), 0), (wider, Quota(1.0), 0))
    assert text.endswith(f"; the quota of {wider} applies there instead")
    ((_, text),) = notes((wider, Quota(5.0, shadow=True), 0), (entity, Quota(1.0), 0))
    assert "applies there instead" not in text


def test_a_change_that_is_not_due_is_told_with_its_time():
    told = notes((ALICE, Quota(5.0), 0), (ALICE, Quota(9.0, 99.0), 86_400_000), (BOB, None, 172_800_000), at=10)
    quota = "controller_mutation_rate=9.0,controller_mutation_burst=99.0"
    assert told == [
        ("scheduled", f"user-principal 'alice': becomes {quota} from 1970-01-02T00:00:00.000Z on, and not before"),
        ("scheduled", "user-principal 'bob': is removed from 1970-01-03T00:00:00.000Z on, and not before"),
    ]


def test_clients_without_a_client_id_are_held_by_no_quota_of_a_client_id_there():
    ((kind, text),) = notes((QuotaEntity("alice", "<none>"), Quota(5.0), 0))
    assert kind == "no_client_id"
    assert text.startswith("user-principal 'alice', client-id '<none>': means clients without a client-id here")


@pytest.mark.parametrize(
    ("name", "said"), [("<default>", "which brokers with ZooKeeper mistake"), ("ж" * 16_384, "is not pushed: Kafka's")]
)
def test_names_that_brokers_read_otherwise_or_not_are_told(name, said):
    ((kind, text),) = notes((QuotaEntity(name), Quota(5.0), 0))
    assert kind == "name"
    assert said in text


@pytest.mark.parametrize(
    ("rate", "said"),
    [(4.6e-7, "is so small"), (4.7e-7, None), (1.6e307, None), (1.7e307, "is so large"), (5e-324, "is so small")],
)
def test_rates_with_which_a_broker_cannot_reckon_are_told(rate, said):
    """2147483.647 s are the longest throttle time; and 1.797e308 is the largest double, eleven times 1.634e307."""
    told = notes((ALICE, Quota(rate), 0))
    assert [kind for kind, _ in told] == (["rate"] if said else [])
    assert all(said in text for _, text in told)


def test_users_that_are_exempt_here_are_told_with_the_quota_that_holds_them_there():
    app = QuotaEntity(client_id="app")
    log = quotas((DEFAULT, Quota(1.0), 0), (QuotaEntity("ops"), Quota(50.0), 0), (app, Quota(2.0), 0))
    told = [str(each) for each in exemption_notes(["ops", "admin", "ops"], wanted_rates(log, 0))]
    assert told == [
        "user 'admin' is exempt here (quota.exempt_users); brokers apply the quota of the default user-principal to it",
        "user 'ops' is exempt here (quota.exempt_users); brokers apply the quota of user-principal 'ops' to it",
    ]
    (only_by_client,) = exemption_notes(["ops"], {app: 2.0})
    assert str(only_by_client).endswith("the quota of client-id 'app' to it")


def test_users_that_are_exempt_and_have_no_quota_there_are_not_told():
    assert list(exemption_notes(["ops"], {ALICE: 5.0, DEFAULT: None})) == []


def test_another_callback_is_told_and_the_default_one_is_not():
    (note,) = callback_note(CallbackSetting("quota.callbacks.groups.GroupQuotaCallback"))
    assert note.kind == "callback"
    assert "quota.callbacks.groups.GroupQuotaCallback" in note.message
    assert list(callback_note(CallbackSetting("quota.callbacks.default.DefaultQuotaCallback"))) == []


def test_another_window_is_told_with_the_bursts_that_follow():
    (note,) = window_note(Window(), Window(100, 1))
    assert note.message.endswith("bursts are 100 s of a quota there, and 11 s here")
    assert list(window_note(Window(), Window())) == []
    assert list(window_note(Window(10, 2), Window(2, 10))) == []  # the same burst
