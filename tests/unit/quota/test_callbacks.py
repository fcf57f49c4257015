"""KIP-257: the updates that a callback receives, their order, and the effects of its return values."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.admission.policy import Policy
from quota.admission.resolve import resolve
from quota.callbacks.default import DefaultQuotaCallback
from quota.callbacks.groups import GroupQuotaCallback
from quota.callbacks.instance import CallbackError, close_callbacks
from quota.callbacks.interface import ClientQuotaEntity, ClientQuotaType, ConfigEntityType, KafkaPrincipal, QuotaValue
from quota.callbacks.proportional import PartitionProportionalCallback
from quota.callbacks.timeline import CallbackTimeline
from quota.records.entity import QuotaEntity, Tags
from quota.records.levels import UNLIMITED, levels
from quota.records.quota_log import Callbacks, CallbackSetting, Cluster, Quota
from quota.timeline.change import (
    BucketReset,
    CallbackCancellation,
    CallbackChange,
    ClusterChange,
    QuotaCancellation,
    QuotaChange,
)
from quota.timeline.timeline import QuotaTimeline
from tests.support.callbacks import Answering, Recording, Unmakeable
from tests.support.factories import record, request_json

HERE = Recording.__module__
ALICE = QuotaEntity("alice")
TYPE = ClientQuotaType.CONTROLLER_MUTATION


@pytest.fixture(autouse=True)
def fresh():
    Recording.calls.clear()
    Answering.tags, Answering.limit, Answering.reset, Answering.limit_calls = {"user": "alice"}, 5, False, 0
    Unmakeable.broken = True
    yield
    close_callbacks()


def quotas_of(name, *changes, more=(), configs=()):
    quotas = CallbackTimeline(Callbacks(f"{HERE}.{name}", tuple(configs), frozenset(f"{HERE}.{cls}" for cls in more)))
    for change in changes:
        quotas.add(change)
    return quotas


def setting(name, **configs):
    return CallbackSetting(f"{HERE}.{name}", configs)


def rate(quotas, at, user="alice", client_id="app"):
    limit = quotas.resolve(user, client_id, at).limit
    return limit and limit.quota.rate


ENTITIES = st.sampled_from([entity for user in "ab" for client in "xy" for entity, _ in levels(user, client)])


@given(
    st.lists(st.tuples(ENTITIES, st.one_of(st.none(), st.floats(0.5, 9.0)))),
    st.sampled_from("abc"),
    st.sampled_from("xyz"),
    st.integers(0, 20),
)
def test_the_default_callback_and_the_timeline_agree(changes, user, client_id, at):
    """The eight levels are resolved by KIP-257's calls, and by a lookup as of a time."""
    timeline, callback = QuotaTimeline(), DefaultQuotaCallback()
    for moment, (entity, value) in enumerate(changes):
        timeline.add(QuotaChange(entity, None if value is None else Quota(value), moment))
        callback_entity = ClientQuotaEntity.of(entity)
        if moment > at:
            continue
        if value is None:
            callback.remove_quota(TYPE, callback_entity)
        else:
            callback.update_quota(TYPE, callback_entity, value)
    resolution = timeline.resolve(user, client_id, at)
    tags = callback.quota_metric_tags(TYPE, KafkaPrincipal("User", user), client_id)
    assert tags == {"user": resolution.tags.user, "client-id": resolution.tags.client_id}
    assert callback.quota_limit(TYPE, tags) == (resolution.limit.quota.rate if resolution.limit else None)


def test_it_receives_updates_in_the_order_of_the_log_before_it_is_called():
    """It receives every update up to the request's timestamp once, and none later."""
    quotas = quotas_of(
        "Recording",
        QuotaChange(ALICE, Quota(5.0), 100),
        QuotaChange(QuotaEntity(None, None), Quota(1.0), 300),
        ClusterChange(Cluster({"t": [0, None]}), 200),
        QuotaChange(ALICE, None, 400),
        configs=[("k", "v")],
    )
    assert rate(quotas, 99) is None
    assert Recording.calls == [("configure", {"k": "v"})]
    assert rate(quotas, 350) == 5.0
    assert rate(quotas, 350) == 5.0
    assert [(kind, *rest) for kind, *rest in Recording.calls[1:]] == [
        ("update", [("alice", ConfigEntityType.USER)], 5.0),
        ("cluster", {"t": [0, None]}),
        (
            "update",
            [
                ("", ConfigEntityType.DEFAULT_USER),
                ("", ConfigEntityType.DEFAULT_CLIENT_ID),
            ],
            1.0,
        ),
    ]
    assert rate(quotas, 400) == 1.0
    assert Recording.calls[-1][0] == "remove"


def test_a_request_from_before_a_change_is_decided_without_it():
    """Another instance is used, which does not know the change; the first one is continued afterwards."""
    quotas = quotas_of("Recording", QuotaChange(ALICE, Quota(5.0), 100), QuotaChange(ALICE, Quota(7.0), 200))
    assert [rate(quotas, at) for at in (250, 150, 250, 50, 150, 199, 200)] == [7.0, 5.0, 7.0, None, 5.0, 5.0, 7.0]


def test_unused_instances_are_closed():
    """A few are cached; all are closed in the end."""
    changes = [QuotaChange(ALICE, Quota(float(moment)), moment) for moment in range(1, 20)]
    quotas = quotas_of("Recording", *changes)
    assert [rate(quotas, at) for at in range(19, 0, -1)] == [float(at) for at in range(19, 0, -1)]
    made = Recording.calls.count(("configure", {}))
    assert (made, Recording.calls.count(("close",))) == (19, 15)
    quotas.close()
    assert Recording.calls.count(("close",)) == made
    assert rate(quotas, 3) == 3.0


def test_a_change_that_is_seen_late_is_not_forgotten():
    quotas = quotas_of("Recording", QuotaChange(ALICE, Quota(5.0), 300))
    assert rate(quotas, 400) == 5.0
    quotas.add(QuotaChange(QuotaEntity("alice", "app"), Quota(3.0), 200))
    assert [rate(quotas, at) for at in (400, 250, 150)] == [3.0, 3.0, None]


def test_a_cancelled_scheduled_change_is_not_passed_to_the_callback():
    quotas = quotas_of("Recording", QuotaChange(ALICE, Quota(5.0), 100), QuotaChange(ALICE, Quota(7.0), 200))
    quotas.add(QuotaCancellation(ALICE, 200))
    assert rate(quotas, 300) == 5.0


def test_metadata_and_configs_that_are_forgotten_are_passed_to_no_further_instance():
    """A request that is not older is resolved as before, and so is one after a later change."""
    quotas = quotas_of("Recording", QuotaChange(ALICE, Quota(5.0), 1), CallbackChange(setting("Recording", n="1"), 2))
    for moment in range(10, 1010):
        quotas.add(ClusterChange(Cluster({"t": [moment]}), moment))
    quotas.add(QuotaChange(ALICE, Quota(7.0), 1008))
    before = [rate(quotas, at) for at in (1005, 1009)]
    quotas.forget(1005)
    Recording.calls.clear()
    quotas.add(CallbackChange(setting("Recording", n="2"), 2000))
    assert [rate(quotas, at) for at in (1005, 1009, 2000)] == [*before, 7.0]
    assert [calls[1:] for calls in Recording.calls if calls[0] in {"cluster", "configure"}] == [
        ({},),
        ({"n": "1"},),
        *(({"t": [moment]},) for moment in range(1005, 1010)),
        ({"n": "2"},),
    ]


def test_configs_change_while_it_runs():
    """The same instance is configured again from the record's timestamp; None means the settings' own configs."""
    quotas = quotas_of("Recording", QuotaChange(ALICE, Quota(5.0), 100), configs=[("a", "1")])
    quotas.add(CallbackChange(setting("Recording", a="2"), 200))
    quotas.add(CallbackChange(None, 300))
    assert [rate(quotas, at) for at in (150, 250, 350)] == [5.0, 5.0, 5.0]
    assert [call for call in Recording.calls if call[0] == "configure"] == [
        ("configure", {"a": "1"}),
        ("configure", {"a": "2"}),
        ("configure", {"a": "1"}),
    ]
    assert quotas.callback(299) == setting("Recording", a="2")
    assert quotas.callback(300) == setting("Recording", a="1")


def test_configs_altered_by_two_operators_are_merged():
    """One adds b, one removes a, without knowing of the other. Configs of a class that is gone change nothing."""
    quotas = quotas_of("Recording", CallbackChange(setting("Recording", a="1", c="1"), 100), more=["Other"])
    quotas.add(CallbackChange(setting("Recording", a="1", b="2", c="1"), 200, ("b",)))
    quotas.add(CallbackChange(setting("Recording", c="1"), 200, ("a",)))
    assert quotas.callback(200) == setting("Recording", b="2", c="1")
    quotas.add(CallbackChange(setting("Other"), 300))
    quotas.add(CallbackChange(setting("Recording", b="9", c="1"), 400, ("b",)))
    assert quotas.callback(400) == setting("Other")


def test_another_class_takes_over_and_receives_all_earlier_updates():
    quotas = quotas_of(
        "Recording", QuotaChange(ALICE, Quota(5.0), 100), CallbackChange(setting("HasAQuota"), 200), more=["HasAQuota"]
    )
    quotas.add(CallbackChange(setting("Recording", again="yes"), 300))
    assert [rate(quotas, at) for at in (150, 250, 350)] == [5.0, 2.0, 5.0]
    assert [quotas.resolve("alice", "app", at).callback for at in (150, 250, 350)] == [
        f"{HERE}.Recording",
        f"{HERE}.HasAQuota",
        f"{HERE}.Recording",
    ]
    assert [call[0] for call in Recording.calls] == ["configure", "update", "configure", "update"]


def test_of_two_classes_for_one_time_the_later_takes_over_from_an_instance_of_the_first():
    quotas = quotas_of("Answering", QuotaChange(ALICE, Quota(5.0), 50), more=["Recording", "HasAQuota"])
    quotas.add(CallbackChange(setting("Recording"), 100))
    assert rate(quotas, 150) == 5.0
    quotas.add(CallbackChange(setting("HasAQuota"), 100))
    assert rate(quotas, 150) == 2.0


def test_a_class_that_the_settings_do_not_name_is_not_imported():
    """Requests are dead letters until there is another class; an earlier allowed one is not restored.

    So the decision is the same if compaction has left only the last record.
    """
    bad, later = CallbackChange(CallbackSetting("os.system"), 100), CallbackChange(None, 200)
    for changes in ([CallbackChange(setting("HasAQuota"), 50), bad, later], [bad, later]):
        quotas = CallbackTimeline(Callbacks(more_classes=frozenset({f"{HERE}.HasAQuota"})))
        quotas.add(QuotaChange(ALICE, Quota(5.0), 0))
        for change in changes:
            quotas.add(change)
        with pytest.raises(CallbackError, match=r"callback: quota.callback_classes lacks os.system"):
            quotas.resolve("alice", "app", 150)
        assert rate(quotas, 250) == 5.0
    quotas = CallbackTimeline()
    quotas.add(bad)
    with pytest.raises(CallbackError, match=r"lacks os\.system"):
        quotas.resolve("alice", "app", 150)


def test_a_scheduled_callback_is_cancelled():
    quotas = CallbackTimeline(Callbacks(more_classes=frozenset({f"{HERE}.HasAQuota"})))
    quotas.add(QuotaChange(ALICE, Quota(5.0), 0))
    quotas.add(CallbackChange(setting("HasAQuota"), 200))
    assert quotas.settings.scheduled(100) == [CallbackChange(setting("HasAQuota"), 200)]
    assert rate(quotas, 250) == 2.0
    quotas.add(CallbackCancellation(200))
    assert quotas.settings.scheduled(100) == []
    assert rate(quotas, 250) == 5.0
    both = quotas_of(
        "Recording", CallbackChange(None, 200), QuotaChange(ALICE, Quota(5.0), 200), CallbackCancellation(200)
    )
    assert rate(both, 250) == 5.0  # the quota of that time stays


def test_a_callback_has_its_own_tags_and_options():
    """The limit is half of a quota with its options; the bucket has the tags in the order of their names."""
    resolution = quotas_of("HasAQuota").resolve("alice", "app", 0)
    assert resolution.limit.quota == Quota(2.0, 20.0, 1000, shadow=True)
    assert resolution.tags == Tags("", "", (("area", "a"), ("zone", "z")))
    assert json.loads(resolution.tags.key) == ["", "", [["area", "a"], ["zone", "z"]]]
    assert (resolution.shadow, resolution.entity) == (True, None)


def test_an_entity_too_large_for_the_decision_is_omitted():
    resolution = quotas_of("OfSomeoneElse").resolve("alice", "app", 0)
    assert (resolution.limit.quota.rate, resolution.entity) == (4.0, None)


def test_a_bucket_is_reset_by_any_of_its_tags():
    quotas = quotas_of("HasAQuota", BucketReset({"zone": "z"}, 70), BucketReset({"zone": "y"}, 80))
    assert quotas.resolve("alice", "app", 100).reset_at == 70


@pytest.mark.parametrize(
    ("tags", "limit", "expected"),
    [
        ({"user": "alice"}, 5, (Tags("alice", ""), 5.0)),
        ({"user": "", "client-id": "app"}, 0.5, (Tags("", "app"), 0.5)),
        ({}, 5, None),
        ({"user": "", "client-id": ""}, 5, None),
        ({"user": "alice"}, None, None),
    ],
)
def test_values_that_it_may_return(tags, limit, expected):
    """Neither a callback without tags nor one without a limit gives a quota."""
    Answering.tags, Answering.limit = tags, limit
    resolution = quotas_of("Answering").resolve("alice", "app", 0)
    assert ((resolution.tags, resolution.limit.quota.rate) if resolution.limit else None) == expected
    assert resolution.limit or resolution._replace(callback=None) == UNLIMITED


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"tags": RuntimeError("oh\nno")}, "Answering.quota_metric_tags raised RuntimeError: oh no"),
        ({"tags": None}, "Answering.quota_metric_tags returned None: expected a dict of strings"),
        ({"tags": {"user": "\ud800"}}, "expected a dict of strings"),
        ({"tags": {str(number): "x" for number in range(7)}}, "expected at most 6 tags besides user and client-id"),
        ({"tags": {"t": "x" * 2000}}, "expected at most 6 tags besides user and client-id, and 1024 bytes more"),
        ({"limit": ValueError("x" * 9999)}, "Answering.quota_limit raised ValueError: " + "x" * 300),
        ({"limit": math.nan}, "Answering.quota_limit returned nan: expected a number > 0, or None"),
        ({"limit": 0}, "quota_limit returned 0"),
        ({"limit": True}, "quota_limit returned True"),
        ({"limit": QuotaValue(Quota(5.0, math.inf))}, "quota_limit returned 5.0: expected a number > 0, or None ("),
        ({"limit": SystemExit(3)}, "Answering.quota_limit raised SystemExit: 3"),
        ({"reset": OSError("gone")}, "Answering.quota_reset_required raised OSError: gone"),
    ],
)
def test_an_exception_or_invalid_value_is_the_reason_of_a_dead_letter(answers, reason):
    """The dead letter names the class and the method that failed; once the callback works, requests are decided."""
    quotas = quotas_of("Answering")
    for name, answer in answers.items():
        setattr(Answering, name, answer)
    letter = resolve(record(request_json(1)), quotas, Policy())
    assert letter.error.startswith("callback: ")
    assert reason in letter.error
    assert len(letter.error) < 500
    assert json.loads(letter.value)["user"] == "alice"
    Answering.tags, Answering.limit, Answering.reset = {"user": "alice"}, 5, False
    assert rate(quotas, 0) == 5.0


def test_a_quota_that_it_rejects_affects_only_requests_of_that_entity():
    """This lasts until it accepts an update of that quota, or gets its removal."""
    quotas = quotas_of(
        "Failing",
        QuotaChange(QuotaEntity(None), Quota(9.0), 0),
        QuotaChange(ALICE, Quota(1.0), 100),
        QuotaChange(ALICE, Quota(3.0), 200),
    )
    assert rate(quotas, 50) == 9.0
    with pytest.raises(CallbackError, match=r"Failing.update_quota raised ValueError: 1.0 is too little"):
        quotas.resolve("alice", "app", 150)
    assert rate(quotas, 150, user="bob") == 9.0
    assert rate(quotas, 250) == 3.0


@pytest.mark.parametrize(
    ("bad", "good", "reason"),
    [
        (CallbackChange(setting("Failing", bad="1"), 100), CallbackChange(None, 200), "configure raised ValueError"),
        (ClusterChange(Cluster({}), 100), ClusterChange(Cluster({"t": [1]}), 200), "no topics"),
    ],
)
def test_configs_or_a_cluster_that_it_rejects_affect_all_requests(bad, good, reason):
    quotas = quotas_of("Failing", QuotaChange(ALICE, Quota(5.0), 0), bad, good)
    for user in ("alice", "bob"):
        with pytest.raises(CallbackError, match=reason):
            quotas.resolve(user, "app", 150)
    assert [rate(quotas, at) for at in (50, 250)] == [5.0, 5.0]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (f"{HERE}.Unmakeable", "raised RuntimeError: no luck"),
        (f"{HERE}.Nowhere", "has no attribute 'Nowhere'"),
        (f"{HERE}.NoCallback", "not a ClientQuotaCallback: it has no configure"),
        ("no_such_package.Callback", "No module named 'no_such_package'"),
        ("Callback", "expected the full name of a class"),
        (f"{HERE}.an_instance", "not a ClientQuotaCallback"),
    ],
)
def test_a_class_that_cannot_be_instantiated_causes_dead_letters(name, reason):
    with pytest.raises(CallbackError, match=reason):
        CallbackTimeline(Callbacks(name)).resolve("alice", "app", 0)


def test_a_class_that_could_not_be_instantiated_is_tried_again_with_new_configs():
    """It then receives the updates that it has missed."""
    quotas = quotas_of("Unmakeable", QuotaChange(ALICE, Quota(5.0), 0), CallbackChange(None, 200))
    with pytest.raises(CallbackError, match="no luck"):
        quotas.resolve("alice", "app", 100)
    Unmakeable.broken = False
    assert rate(quotas, 200) == 5.0


def test_limits_are_requested_once_until_something_changes():
    """As in KIP-257, quota_limit is called after an update and if quota_reset_required says so, not on each request."""
    quotas = quotas_of("Answering", QuotaChange(ALICE, Quota(1.0), 0), ClusterChange(Cluster({}), 500))

    def calls_at(at):
        before = Answering.limit_calls
        quotas.resolve("alice", "app", at)
        return Answering.limit_calls - before

    assert [calls_at(100) for _ in range(3)] == [1, 0, 0]
    quotas.add(QuotaChange(QuotaEntity("bob"), Quota(1.0), 200))
    assert [calls_at(200), calls_at(300)] == [1, 0]
    Answering.reset = True
    assert [calls_at(300), calls_at(300)] == [1, 1]
    Answering.reset = False
    assert calls_at(600) == 0  # update_cluster_metadata has returned that nothing changed


def test_valid_configs_recover_from_invalid_ones():
    """The instance is created again and receives all updates, so that no operator has to set every quota again."""
    quotas = quotas_of(
        "NeedsConfigs",
        QuotaChange(ALICE, Quota(5.0), 100),
        ClusterChange(Cluster({}), 150),
        CallbackChange(setting("NeedsConfigs", factor="2"), 200),
    )
    with pytest.raises(CallbackError, match=r"NeedsConfigs\.configure raised KeyError"):
        quotas.resolve("alice", "app", 199)
    assert rate(quotas, 200) == 10.0


def test_a_limit_is_requested_again_after_an_update_that_raised():
    """It does not matter whether it was requested before, which differs between workers."""
    clusters = [ClusterChange(Cluster({topic: [0] for topic in "ab"[:count]}), count * 100) for count in (1, 2)]
    before, after = quotas_of("Stale", *clusters), quotas_of("Stale", *clusters)
    assert rate(before, 50) == 1
    assert (rate(before, 250), rate(after, 250)) == (3, 3)


def test_long_names_are_not_cached():
    """They may be megabytes each; their limits are requested again."""
    quotas = quotas_of("Answering")
    long = {"user": "x" * 5000}
    Answering.tags = long
    for _ in range(3):
        quotas.resolve(long["user"], "app", 0)
    assert Answering.limit_calls == 3


def test_a_limit_is_in_force_since_the_last_change_of_its_inputs():
    """For a quota with its entity: its levels, the cluster and the callback; for any other all updates."""
    others = [QuotaChange(QuotaEntity("bob"), Quota(1.0), 70), BucketReset({"user": "bob"}, 80)]
    assert quotas_of("Answering", *others).resolve("alice", "app", 60).limit.since < 0
    assert quotas_of("Answering", *others).resolve("alice", "app", 99).limit.since == 70
    quotas = quotas_of("Recording", QuotaChange(ALICE, Quota(5.0), 10), *others)
    assert quotas.resolve("alice", "app", 99).limit.since == 10
    quotas.add(QuotaChange(QuotaEntity("alice", "app"), None, 90))
    assert quotas.resolve("alice", "app", 99).limit.since == 90
    quotas.add(ClusterChange(Cluster({}), 95))
    assert quotas.resolve("alice", "app", 99).limit.since == 95
    quotas.add(CallbackChange(None, 97))
    assert quotas.resolve("alice", "app", 99).limit.since == 97


def test_after_a_return_to_the_default_a_limit_is_in_force_since_then():
    """The time under another callback's limit is not credited."""
    quotas = CallbackTimeline(Callbacks(more_classes=frozenset({f"{HERE}.HasAQuota"})))
    quotas.add(QuotaChange(ALICE, Quota(100.0), 0))
    assert quotas.resolve("alice", "app", 50).limit.since == 0
    quotas.add(CallbackChange(setting("HasAQuota"), 100))
    quotas.add(CallbackChange(None, 1000))
    resolution = quotas.resolve("alice", "app", 1001)
    assert (resolution.callback, resolution.limit.quota.rate, resolution.limit.since) == (None, 100.0, 1000)


def test_a_quota_as_in_the_kip_is_a_number():
    value = QuotaValue(Quota(4.0, 40.0), ALICE)
    assert value == 4.0
    assert value * 2 == 8.0
    assert (value.times(0.5).quota, value.times(0.5).entity) == (Quota(2.0, 20.0), ALICE)


GROUPS = f"{GroupQuotaCallback.__module__}.GroupQuotaCallback"
PROPORTIONAL = f"{PartitionProportionalCallback.__module__}.PartitionProportionalCallback"
MEMBERS = {
    "group.pay.users": "alice; CN=w,O=bank ;",
    "group.pay.clients": "etl",
    "group.pay.controller_mutation_rate": "10",
    "group.v1.2.controller_mutation_rate": "2.5",
    "group.v1.2.controller_mutation_burst": "100",
    "group.v1.2.max_debt_ms": "60000",
    "group.v1.2.shadow": "true",
    "group.v1.2.users": "dave",
}


def shipped_quotas(name, configs, *changes):
    quotas = CallbackTimeline(Callbacks(name, tuple(configs.items())))
    for change in changes:
        quotas.add(change)
    return quotas


def quota_of(quotas, user, client_id, at=0):
    resolution = quotas.resolve(user, client_id, at)
    return resolution.tags, resolution.limit and resolution.limit.quota


def test_members_of_a_group_share_one_bucket():
    """Groups are by user or by client-id; a user in none has the eight levels."""
    quotas = shipped_quotas(GROUPS, MEMBERS, QuotaChange(QuotaEntity(None), Quota(3.0), 0))
    pay = (Tags("", "", (("group", "pay"),)), Quota(10.0))
    assert quota_of(quotas, "alice", "x") == pay
    assert quota_of(quotas, "CN=w,O=bank", "y") == pay
    assert quota_of(quotas, "bob", "etl") == pay
    assert quota_of(quotas, "dave", "etl") == (
        Tags("", "", (("group", "v1.2"),)),
        Quota(2.5, 100.0, 60000, shadow=True),
    )
    assert quota_of(quotas, "bob", "x") == (Tags("bob", ""), Quota(3.0))


def test_groups_change_while_it_runs():
    smaller = CallbackSetting(GROUPS, {"group.pay.users": "bob", "group.pay.controller_mutation_rate": "1"})
    quotas = shipped_quotas(GROUPS, MEMBERS, CallbackChange(smaller, 100))
    assert quota_of(quotas, "alice", "x", 99)[1] == Quota(10.0)
    assert quota_of(quotas, "alice", "x", 100) == (Tags("", ""), None)
    assert quota_of(quotas, "bob", "x", 100)[1] == Quota(1.0)


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ({"groups.pay.users": "a"}, "groups.pay.users is not a config of a group"),
        ({"group.pay.users": "a"}, "group.pay: Object missing required field `controller_mutation_rate`"),
        ({"group.pay.controller_mutation_rate": "fast"}, "Expected `float`"),
        ({"group.pay.controller_mutation_rate": "0"}, "Expected `float` > 0"),
        ({"group.pay.controller_mutation_rate": "1", "group.pay.user": "a"}, "unknown field `user`"),
        (MEMBERS | {"group.v1.2.users": "alice"}, "alice is in the groups pay and v1.2"),
    ],
)
def test_invalid_groups_are_rejected(configs, reason):
    with pytest.raises(ValueError, match=reason.replace("(", r"\(")):
        GroupQuotaCallback().configure(configs)


CLUSTER = Cluster({"alice.a": [0, 1, None], "alice.b": [0] * 3, "bob.x": [1] * 2, "shared": [0] * 50})


def test_a_quota_in_proportion_to_the_partitions_that_a_tenant_owns():
    """alice owns 6 of 8 partitions, bob 2, carol none; what has no owner does not count."""
    quotas = shipped_quotas(
        PROPORTIONAL,
        {"minimum.share": "0.1"},
        QuotaChange(QuotaEntity(None), Quota(100.0, 1000.0), 0),
        QuotaChange(QuotaEntity("bob", "app"), Quota(8.0), 0),
        ClusterChange(CLUSTER, 100),
        ClusterChange(Cluster({"alice.a": [0], "carol.c": [0]}), 200),
    )
    assert quota_of(quotas, "alice", "x", 50) == (Tags("alice", ""), Quota(100.0, 1000.0))
    assert quota_of(quotas, "alice", "x", 100) == (Tags("alice", ""), Quota(75.0, 750.0))
    assert quota_of(quotas, "bob", "app", 100) == (Tags("bob", "app"), Quota(2.0))
    assert quota_of(quotas, "carol", "x", 100) == (Tags("carol", ""), Quota(10.0, 100.0))
    assert quota_of(quotas, "carol", "x", 200) == (Tags("carol", ""), Quota(50.0, 500.0))
    assert quotas.resolve("alice", "x", 100).entity == QuotaEntity(None)


def test_quotas_of_client_ids_are_as_configured():
    quotas = shipped_quotas(
        PROPORTIONAL, {}, QuotaChange(QuotaEntity(client_id="etl"), Quota(4.0), 0), ClusterChange(CLUSTER, 0)
    )
    assert quota_of(quotas, "alice", "etl") == (Tags("", "etl"), Quota(4.0))


def test_the_separator_can_be_configured():
    quotas = shipped_quotas(
        PROPORTIONAL,
        {"owner.separator": "__"},
        QuotaChange(QuotaEntity(None), Quota(10.0), 0),
        ClusterChange(Cluster({"alice__a": [0], "bob__b": [0], "bob.c": [0]}), 0),
    )
    assert quota_of(quotas, "alice", "x")[1] == Quota(5.0)


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ({"minimum.share": "0"}, "minimum.share is 0: expected a number above 0 and at most 1"),
        ({"minimum.share": "much"}, "minimum.share is much"),
        ({"owner.separator": ""}, "owner.separator is empty"),
        ({"minimum": "1"}, "minimum is unknown"),
    ],
)
def test_invalid_configs_are_rejected(configs, reason):
    with pytest.raises(ValueError, match=reason):
        PartitionProportionalCallback().configure(configs)
