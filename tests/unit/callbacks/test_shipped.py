"""The two callbacks that KIP-257 was written for."""

import pytest

from quota.callbacks.groups import GroupQuotaCallback
from quota.callbacks.proportional import PartitionProportionalCallback
from quota.callbacks.timeline import CallbackTimeline
from quota.records.callback import Callbacks, CallbackSetting
from quota.records.entity import QuotaEntity, Tags
from quota.records.quota import Quota
from quota.records.quota_log import Cluster
from quota.timeline.change import CallbackChange, ClusterChange, QuotaChange

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


def quotas_of(name, configs, *changes):
    quotas = CallbackTimeline(Callbacks(name, tuple(configs.items())))
    for change in changes:
        quotas.add(change)
    return quotas


def quota_of(quotas, user, client_id, at=0):
    found = quotas.resolve(user, client_id, at)
    return found.tags, found.limit and found.limit.quota


def test_members_of_a_group_share_one_bucket():
    """Groups are by user or by client-id; a user in none has the eight levels."""
    quotas = quotas_of(GROUPS, MEMBERS, QuotaChange(QuotaEntity(None), Quota(3.0), 0))
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
    quotas = quotas_of(GROUPS, MEMBERS, CallbackChange(smaller, 100))
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
    quotas = quotas_of(
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
    quotas = quotas_of(
        PROPORTIONAL, {}, QuotaChange(QuotaEntity(client_id="etl"), Quota(4.0), 0), ClusterChange(CLUSTER, 0)
    )
    assert quota_of(quotas, "alice", "etl") == (Tags("", "etl"), Quota(4.0))


def test_the_separator_can_be_configured():
    quotas = quotas_of(
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
