"""The sections of the settings that are of one job each."""

from typing import Annotated, Literal

from pydantic import Field

from quota.settings.types import Count, Name, NameList, Pattern, Seconds, SecondsOrZero, Section


class EnforceSettings(Section):
    """The query that decides."""

    trigger_seconds: SecondsOrZero = 0.0
    """Time between batches; 0 starts the next one at once, for the lowest latency."""

    max_requests_per_batch: Count = 50_000
    """How much of a backlog one batch takes on."""

    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "zstd"
    """Of decisions and dead letters in their topics; another where a cluster, or a reader of them, does not know it."""

    state_partitions: Annotated[int, Field(ge=1, le=10_000)] = 2
    """Partitions of the bucket state. Frozen by a checkpoint's first batch."""

    quota_timeout_seconds: Seconds = 60.0
    """How long the quota topic may be unreachable before the query ends with an error."""

    fail_on_data_loss: bool = True
    """End with an error where requests were removed from their topic before they were decided; else pass them over."""

    with_audit: bool = False
    """Run the audit in the same process."""


class AuditSettings(Section):
    """The query that keeps everything in Delta."""

    trigger_seconds: SecondsOrZero = 10.0
    """Time between batches: fewer and larger files against fresher tables."""

    max_records_per_batch: Count = 50_000
    """How much of a backlog one batch takes on."""

    fail_on_data_loss: bool = True
    """End with an error where records were removed from their topics before they were kept; else pass them over."""


class MinutesSettings(Section):
    """The query that adds up each tenant's decisions by the minute."""

    trigger_seconds: SecondsOrZero = 60.0
    """Time between batches; each adds up anew the minutes that decisions have come for."""


class ApplySettings(Section):
    """The applier: what carries admitted mutations out."""

    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 60.0
    """How long the target cluster may be unreachable or busy before a mutation counts as failed."""

    max_age_seconds: Seconds = 3600.0
    """Requests that are older are not carried out any more, but told as failed: whoever sent them has given up."""

    topic_pattern: Pattern = ".*"
    """A regular expression that a topic's name must match; {user} and {client_id} stand for the request's own."""

    permissive: bool = True
    """Carry out what old API versions ask for, which is always admitted. Only a gateway holds such clients back."""

    protected_topics: NameList = []
    """Topics that nobody may change, beside those of the deployment and Kafka's own. Several separated by commas."""

    group: Name = "mutation-quota-applier"
    """Under which it keeps its place. One applier of a group works, the latest that was started."""

    auto_offset_reset: Literal["earliest", "latest"] = "earliest"
    """Where a new group begins among the decisions."""


class MetricsSettings(Section):
    """What a running job tells Prometheus."""

    port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """Where it is read, as http://address:port/metrics; 0: nowhere. Each job of a machine needs one of its own."""

    address: Name = "127.0.0.1"
    """Whom it is served to: this machine alone, or 0.0.0.0 for all that reach it. It names users and client-ids."""

    max_tenants: Annotated[int, Field(ge=1, le=100_000)] = 500
    """How many tenants have series of their own, the busiest; all others are in the sums alone."""
