"""Quota groups: several users and client-ids under one name, one quota and one bucket.

An example of KIP-257's callback, whose quotas come from its configs:

    [quota]
    callback_class = "quota.callbacks.groups.GroupQuotaCallback"

    [quota.callback_configs]
    "group.payments.users" = "alice;CN=writer,O=bank"   # by semicolons, since names of certificates have commas
    "group.payments.clients" = "nightly-etl"
    "group.payments.controller_mutation_rate" = 10      # also controller_mutation_burst, max_debt_ms, shadow

Who is in no group has a quota by the eight levels.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from quota.callbacks.default import DefaultQuotaCallback
from quota.callbacks.interface import ClientQuotaType, KafkaPrincipal, QuotaValue
from quota.records.fields import DebtMs, Positive
from quota.records.quota import Quota

_PREFIX = "group."


class _Group(msgspec.Struct, forbid_unknown_fields=True):
    controller_mutation_rate: Positive
    users: str = ""
    clients: str = ""
    controller_mutation_burst: Positive | None = None
    max_debt_ms: DebtMs | None = None
    shadow: bool = False


class GroupQuotaCallback(DefaultQuotaCallback):
    """A member's tag is its `group`; a user's group goes before a client-id's."""

    def __init__(self) -> None:
        super().__init__()
        self._limits: dict[str, QuotaValue] = {}
        self._of_user: dict[str, str] = {}
        self._of_client: dict[str, str] = {}

    def configure(self, configs: Mapping[str, str]) -> None:
        """Take the groups, in place of those before.

        Raises:
            ValueError: a config is none of a group's, or someone is in two groups.
        """
        limits: dict[str, QuotaValue] = {}
        of_user: dict[str, str] = {}
        of_client: dict[str, str] = {}
        for name, group in _groups(configs).items():
            quota = Quota(
                group.controller_mutation_rate, group.controller_mutation_burst, group.max_debt_ms, group.shadow
            )
            limits[name] = QuotaValue(quota)
            for members, names in ((of_user, group.users), (of_client, group.clients)):
                for member in filter(None, (each.strip() for each in names.split(";"))):
                    if members.setdefault(member, name) != name:
                        raise ValueError(f"{member} is in the groups {members[member]} and {name}")
        self._limits, self._of_user, self._of_client = limits, of_user, of_client

    def quota_metric_tags(
        self, quota_type: ClientQuotaType, principal: KafkaPrincipal, client_id: str
    ) -> Mapping[str, str]:
        """The group, or the tags of the eight levels."""
        group = self._of_user.get(principal.name) or self._of_client.get(client_id)
        return {"group": group} if group else super().quota_metric_tags(quota_type, principal, client_id)

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        """The quota of the group; None for a group that is gone."""
        group = metric_tags.get("group")
        return self._limits.get(group) if group else super().quota_limit(quota_type, metric_tags)


def _groups(configs: Mapping[str, str]) -> dict[str, _Group]:
    given: dict[str, dict[str, Any]] = {}
    for key, value in configs.items():
        name, dot, field = key.removeprefix(_PREFIX).rpartition(".")
        if not (key.startswith(_PREFIX) and dot and name):
            raise ValueError(f"{key} is no config of a group: expected group.NAME.users and the like")
        given.setdefault(name, {})[field] = value
    groups = {}
    for name, fields in given.items():
        try:
            groups[name] = msgspec.convert(fields, _Group, strict=False)
        except msgspec.ValidationError as error:
            raise ValueError(f"{_PREFIX}{name}: {error}") from None
    return groups
