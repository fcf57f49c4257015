"""Sections of the settings that configure one program each."""

import ipaddress
import socket
from datetime import tzinfo
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from quota.settings.types import (
    MAX_PORT,
    MappingRules,
    Name,
    NameList,
    Pattern,
    SecondsOrZero,
    Section,
    TimeZone,
)
from quota.text import parse_zone

ExpiringTable: TypeAlias = Literal["decisions", "dead_letters"]


class EnforceSettings(Section):
    """The query that decides requests."""

    trigger_seconds: SecondsOrZero = 0.0
    """Time between micro-batches in seconds, up to 86,400. 0 starts the next one at once, for the lowest latency."""

    state_partitions: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of partitions of the bucket state, up to 10,000. Fixed by a checkpoint's first batch. With 1, a batch is a
    single task, which has the lowest latency; more use more cores."""

    with_audit: bool = False
    """Whether the audit runs in the same process."""


class AuditSettings(Section):
    """The query that writes decisions, dead letters and quota changes to Delta."""

    trigger_seconds: SecondsOrZero = 10.0
    """Time between micro-batches in seconds, up to 86,400. More time makes fewer, larger files and staler tables."""

    upkeep_seconds: SecondsOrZero = 300.0
    """Time between upkeeps of the tables in seconds, up to 86,400: files are compacted, old ones deleted.

    0 for none: then run `mutation-quota maintain` every day.
    """

    keep_days: dict[ExpiringTable, Annotated[int, Field(ge=1, le=36_500)]] = {}
    """Days, up to 36,500, for which rows of `decisions` or `dead_letters` are retained; all without an entry.

    Quota changes are always retained: they are few, and explain decisions.
    """


class ApplierSettings(Section):
    """The applier, which carries admitted mutations out."""

    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 60.0
    """Time in seconds, above 0 and up to 600, that the target may be unreachable or busy before a mutation fails."""

    topic_pattern: Pattern = ".*"
    """Regular expression that a topic's name must match. `{user}` and `{client_id}` are replaced with those of the
    request.
    """

    permissive: bool = True
    """Whether mutations of old API versions, which are always admitted, are carried out. Only a gateway delays them."""

    protected_topics: NameList = []
    """Topics that are never changed, in addition to the deployment's and Kafka's own. Separated by commas."""

    group: Name = "mutation-quota-applier"
    """Name of the applier: the key of its position in `topics.positions`, and its transactional id. One applier of a
    name is active: the one started last."""


class ObserveSettings(Section):
    """Reading the request logs of brokers."""

    time_zone: TimeZone = "UTC"
    """Time zone of the logs' times, where they name none: that of the brokers, such as `Europe/Berlin`."""

    principal_mapping_rules: MappingRules = "DEFAULT"
    """Rules from principals to users, as Kafka's `ssl.principal.mapping.rules`. By default, `User:alice` is `alice`."""

    default_partitions: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """`num.partitions` of the brokers, up to 1,000,000, for logs that do not contain it. 0: unknown."""

    group: str = ""
    """Name of this observer. One observer of a name is active: the one started last. Empty for `observe-` and the
    host's name."""

    @property
    def zone(self) -> tzinfo:
        """The time zone."""
        return parse_zone(self.time_zone)

    @property
    def group_name(self) -> str:
        """The name of the observer."""
        return self.group or f"observe-{socket.gethostname()}"


class DashboardSettings(Section):
    """The dashboard: a page that shows requests, tenants and quotas as they change."""

    port: Annotated[int, Field(ge=0, le=MAX_PORT)] = 8599
    """Port of the page, up to 65,535. 0 takes any free port."""

    address: Name = "127.0.0.1"
    """IP address to listen on. Any other than this machine's loopback addresses needs `token_file`."""

    hosts: NameList = []
    """Host names by which browsers may reach the page, besides its address and localhost. Separated by commas."""

    token_file: str = ""
    """Path of a file with only a token of 16 or more characters, which a browser must present."""

    @property
    def is_local(self) -> bool:
        """Whether only programs on this machine can reach the page."""
        return ipaddress.ip_address(self.address).is_loopback

    @model_validator(mode="after")
    def _check_token(self) -> Self:
        try:
            local = self.is_local
        except ValueError:
            raise ValueError(f"address: {self.address!r} is not an IP address, such as 127.0.0.1 or 0.0.0.0") from None
        if not (local or self.token_file):
            raise ValueError(f"address: {self.address} is reachable from other machines, which requires token_file")
        return self
