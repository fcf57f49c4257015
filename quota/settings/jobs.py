"""Sections of the settings that configure one job each."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from quota.settings.types import Count, Name, NameList, Pattern, Seconds, SecondsOrZero, Section

ExpiringTable: TypeAlias = Literal["decisions", "dead_letters"]


class EnforceSettings(Section):
    """The query that decides requests."""

    trigger_seconds: SecondsOrZero = 0.0
    """Time between micro-batches in seconds, up to 86,400. 0 starts the next one at once, for the lowest latency."""

    max_requests_per_batch: Count = 50_000
    """Maximum number of requests in a micro-batch."""

    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "zstd"
    """Compression of the decisions and dead letters written. Change it if the cluster or a reader lacks the codec."""

    state_partitions: Annotated[int, Field(ge=1, le=10_000)] = 2
    """Number of partitions of the bucket state, up to 10,000. Fixed by a checkpoint's first batch."""

    quota_timeout_seconds: Seconds = 60.0
    """Time in seconds, above 0 and up to 86,400, that the quota topic may be unreachable before the query fails."""

    fail_on_data_loss: bool = True
    """Whether the query fails if requests were removed from their topic undecided. Otherwise they are skipped."""

    with_audit: bool = False
    """Whether the audit runs in the same process."""


class AuditSettings(Section):
    """The query that writes decisions, dead letters and quota changes to Delta."""

    trigger_seconds: SecondsOrZero = 10.0
    """Time between micro-batches in seconds, up to 86,400. More time makes fewer, larger files and staler tables."""

    max_records_per_batch: Count = 50_000
    """Maximum number of records in a micro-batch."""

    fail_on_data_loss: bool = True
    """Whether the query fails if records were removed from their topics unread. Otherwise they are skipped."""

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

    max_age_seconds: Seconds = 3600.0
    """Age in seconds, above 0 and up to 86,400, at which a request is reported as failed: its sender has given up."""

    topic_pattern: Pattern = ".*"
    """Regular expression that a topic's name must match. `{user}` and `{client_id}` are replaced with those of the
    request.
    """

    permissive: bool = True
    """Whether mutations of old API versions, which are always admitted, are carried out. Only a gateway delays them."""

    protected_topics: NameList = []
    """Topics that are never changed, in addition to the deployment's and Kafka's own. Separated by commas."""

    group: Name = "mutation-quota-applier"
    """Consumer group that stores the applier's position. One applier of a group is active: the one started last."""

    auto_offset_reset: Literal["earliest", "latest"] = "earliest"
    """Position in the decisions topic at which a new group starts."""


class PushSettings(Section):
    """The service that keeps a cluster's own quotas equal to the quota log (`quotas push --follow`)."""

    compare_seconds: Seconds = 30.0
    """Time in seconds, above 0 and up to 86,400, between comparisons of the cluster's quotas with the log."""
