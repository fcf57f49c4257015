"""Quota groups: users and client-ids that share one quota and one bucket under a name.

An example of a KIP-257 callback whose quotas come from its configs:

    [quota]
    callback_class = "quota.callbacks.groups.GroupQuotaCallback"

    [quota.callback_configs]
    "group.payments.users" = "alice;CN=writer,O=bank"   # separated by semicolons: certificate names have commas
    "group.payments.clients" = "nightly-etl"
    "group.payments.controller_mutation_rate" = 10      # and the other configs of a quota

The eight levels apply to users and client-ids in no group.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from quota.callbacks.default import DefaultQuotaCallback
from quota.callbacks.interface import ClientQuotaType, KafkaPrincipal, QuotaValue
from quota.records.quota_log import Quota

_PREFIX = "group."


class _Group(Quota, frozen=True, forbid_unknown_fields=True):
    """The configs of a group: its quota, and its members."""

    users: str = ""
    clients: str = ""


class GroupQuotaCallback(DefaultQuotaCallback):
    """Resolves a member of a group by the tag `group`; a user's group wins over a client-id's."""

    def __init__(self) -> None:
        super().__init__()
        self._limits: dict[str, QuotaValue] = {}
        self._user_groups: dict[str, str] = {}
        self._client_groups: dict[str, str] = {}

    def configure(self, configs: Mapping[str, str]) -> None:
        """Replace the groups.

        Raises:
            ValueError: a config is invalid, or a user or client-id is in two groups.
        """
        limits: dict[str, QuotaValue] = {}
        user_groups: dict[str, str] = {}
        client_groups: dict[str, str] = {}
        for name, group in _parse_groups(configs).items():
            limits[name] = QuotaValue(Quota(*group.bounds, group.shadow, group.max_request_mutations))
            for members, names in ((user_groups, group.users), (client_groups, group.clients)):
                for member in filter(None, (entry.strip() for entry in names.split(";"))):
                    if members.setdefault(member, name) != name:
                        raise ValueError(f"{member} is in the groups {members[member]} and {name}")
        self._limits, self._user_groups, self._client_groups = limits, user_groups, client_groups

    def quota_metric_tags(
        self, quota_type: ClientQuotaType, principal: KafkaPrincipal, client_id: str
    ) -> Mapping[str, str]:
        """Return the tag of the group, or the tags of the eight levels."""
        group = self._user_groups.get(principal.name) or self._client_groups.get(client_id)
        return {"group": group} if group else super().quota_metric_tags(quota_type, principal, client_id)

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        """Return the quota of the group; None for a group that no longer exists."""
        group = metric_tags.get("group")
        return self._limits.get(group) if group else super().quota_limit(quota_type, metric_tags)


def _parse_groups(configs: Mapping[str, str]) -> dict[str, _Group]:
    fields_by_name: dict[str, dict[str, Any]] = {}
    for key, value in configs.items():
        name, dot, field = key.removeprefix(_PREFIX).rpartition(".")
        if not (key.startswith(_PREFIX) and dot and name):
            raise ValueError(f"{key} is not a config of a group: expected group.NAME.users and so on")
        fields_by_name.setdefault(name, {})[field] = value
    groups = {}
    for name, fields in fields_by_name.items():
        try:
            groups[name] = msgspec.convert(fields, _Group, strict=False)
        except msgspec.ValidationError as error:
            raise ValueError(f"{_PREFIX}{name}: {error}") from None
    return groups
