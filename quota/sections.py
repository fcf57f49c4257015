"""The sections of the settings: what may be set, with defaults that work."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SecretStr, StringConstraints, model_validator

from quota.bucket import Window
from quota.callbacks.setting import DEFAULT_CLASS, Callbacks
from quota.connection import Connection
from quota.identity import topic_of
from quota.resolution import DEFAULT_MAX_BYTES, DEFAULT_MAX_NAME_CHARS, DEFAULT_MAX_TOPICS
from quota.security_settings import SECTION, SecuritySettings


def _split(names: object) -> object:
    """Several names in one text, as an option or the environment gives them."""
    return [name.strip() for name in names.split(",") if name.strip()] if isinstance(names, str) else names


def _pattern(text: str) -> str:
    try:
        re.compile(text.replace("{user}", "").replace("{client_id}", ""))
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None
    return text


Memory = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,5}[mg]$")]
Name = Annotated[str, StringConstraints(min_length=1)]
NameList = Annotated[list[Name], BeforeValidator(_split)]
TopicName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
SecondsOrZero = Annotated[float, Field(ge=0, le=86_400)]


class _Section(BaseModel):
    model_config = SECTION


class KafkaSettings(SecuritySettings):
    """The cluster whose topics carry requests, decisions and quotas."""

    bootstrap_servers: Name = "127.0.0.1:9092"
    """host:port, several separated by commas."""

    timeout_seconds: Seconds = 5.0
    """How long a cluster may take to answer a command before it counts as unreachable."""

    target_servers: str = ""
    """The cluster whose topics are created, grown and deleted; empty where it is the same one."""

    @property
    def connection(self) -> Connection:
        """How the cluster is reached."""
        return Connection(self.bootstrap_servers, self.security)


class TargetSettings(SecuritySettings):
    """How the cluster that mutations are for is spoken to; as the other one, where nothing is said here."""


class StorageSettings(_Section):
    """Where a deployment keeps what it has to keep."""

    root: Name = ".data"
    """A folder or a URL: checkpoints in <root>/checkpoints, Delta tables in <root>/tables."""

    options: dict[Name, SecretStr] = {}
    """Properties of the file system that the root is on, by Hadoop's names: fs.s3a.secret.key. All count as secrets."""


class TopicSettings(_Section):
    """The topics, and how missing ones are created."""

    requests: TopicName = "mutation-requests"
    decisions: TopicName = "mutation-decisions"
    dead_letters: TopicName = "mutation-dead-letters"
    quotas: TopicName = "mutation-quotas"
    results: TopicName = "mutation-results"
    places: TopicName = "mutation-places"

    identity: Literal["payload", "topic"] = "payload"
    """Who tells a request's user: the payload, which a trusted gateway writes, or its topic `<requests>.<user>`."""

    retired_users: NameList = []
    """Users whose topics were deleted for good; without it one that is gone stops the job. Several by commas."""

    create: bool = True
    """Create missing topics with the settings they need."""

    partitions: Annotated[int, Field(ge=1, le=10_000)] = 2
    """Of the topics created; the quota topic always has one, so that its changes have one order."""

    replication_factor: Annotated[int, Field(ge=-1, le=2**15 - 1)] = -1
    """Of the topics created; -1 leaves it to the cluster."""

    trust_producer_timestamps: bool = False
    """Take the time of CreateTime topics too. A client that writes its own time writes itself tokens."""

    @property
    def by_users(self) -> str | None:
        """What the topics of users are named after, where these tell who they are."""
        return self.requests if self.identity == "topic" else None

    def requests_of(self, user: str) -> str:
        """The topic that a user's requests go to.

        Raises:
            BadInput: no topic can have the name that this takes.
        """
        return self.requests if self.by_users is None else topic_of(user, self.by_users)

    @property
    def names(self) -> list[str]:
        """The topics of a deployment."""
        return [self.requests, self.decisions, self.dead_letters, self.quotas, self.results, self.places]

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = self.names
        for name in names:
            if names.count(name) > 1 or name in {".", ".."}:
                raise ValueError(f"{name} cannot be the name of a topic here, or of two")
            if self.by_users is not None and name.startswith(f"{self.by_users}."):
                raise ValueError(f"{name} would be a user's topic (topics.identity=topic)")
        return self


class QuotaSettings(_Section):
    """How much of a quota may be used at once."""

    window_num: Count = 11
    """S, Kafka's controller.quota.window.num."""

    window_size_seconds: Count = 1
    """W, Kafka's controller.quota.window.size.seconds."""

    exempt_users: NameList = []
    """Principals that are never throttled: super users and operators' own tools. Several separated by commas."""

    shadow: bool = False
    """Decide and report what would have been refused, but admit all."""

    callback_class: Name = DEFAULT_CLASS
    """Who decides which requests share a quota, and how much it is: a class that implements KIP-257's callback."""

    callback_classes: NameList = []
    """Other classes that the quota log may put in its place while the jobs run. Several separated by commas."""

    callback_configs: dict[Name, str] = {}
    """What the callback is configured with."""

    altered_by: str = ""
    """Who changes quotas, for the history; empty for the operating system's user."""

    @property
    def callbacks(self) -> Callbacks:
        """The callback and its configs, as the workers take them."""
        configs = tuple(sorted(self.callback_configs.items()))
        return Callbacks(self.callback_class, configs, frozenset(self.callback_classes))

    @property
    def window(self) -> Window:
        """S and W as the bucket takes them."""
        return Window(self.window_num, self.window_size_seconds)


class RepeatSettings(_Section):
    """Requests that are sent twice, as by a gateway that crashed: what was admitted once is not charged again."""

    window_seconds: SecondsOrZero = 0.0
    """How long a bucket remembers the requests it has admitted; 0: not at all, so that each is charged."""

    most_per_bucket: Count = 1000
    """How many it remembers at most; then the oldest are forgotten."""


class LimitSettings(_Section):
    """What a single record may ask of the jobs."""

    max_request_bytes: Annotated[int, Field(ge=1024, le=8 * 1024 * 1024)] = DEFAULT_MAX_BYTES
    """A larger record is a dead letter. The decisions and dead letters topics must take six times as much."""

    max_topics: Count = DEFAULT_MAX_TOPICS
    """A request for more topics is a dead letter."""

    max_name_chars: Count = DEFAULT_MAX_NAME_CHARS
    """A request with a longer user, client-id, request id or topic name is a dead letter."""


class EnforceSettings(_Section):
    """The query that decides."""

    trigger_seconds: SecondsOrZero = 0.0
    """Time between batches; 0 starts the next one at once, for the lowest latency."""

    max_requests_per_batch: Count = 50_000
    """How much of a backlog one batch takes on."""

    state_partitions: Annotated[int, Field(ge=1, le=10_000)] = 2
    """Partitions of the bucket state. Frozen by a checkpoint's first batch."""

    quota_timeout_seconds: Seconds = 60.0
    """How long the quota topic may be unreachable before the query ends with an error."""

    fail_on_data_loss: bool = True
    """End with an error where requests were removed from their topic before they were decided; else pass them over."""

    with_audit: bool = False
    """Run the audit in the same process."""


class AuditSettings(_Section):
    """The query that keeps everything in Delta."""

    trigger_seconds: SecondsOrZero = 10.0
    """Time between batches: fewer and larger files against fresher tables."""

    max_records_per_batch: Count = 50_000
    """How much of a backlog one batch takes on."""

    fail_on_data_loss: bool = True
    """End with an error where records were removed from their topics before they were kept; else pass them over."""


class MinutesSettings(_Section):
    """The query that adds up each tenant's decisions by the minute."""

    trigger_seconds: SecondsOrZero = 60.0
    """Time between batches; each adds up anew the minutes that decisions have come for."""


class ApplySettings(_Section):
    """The applier: what carries admitted mutations out."""

    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 60.0
    """How long the target cluster may be unreachable or busy before a mutation counts as failed."""

    max_age_seconds: Seconds = 3600.0
    """Requests that are older are not carried out any more, but told as failed: whoever sent them has given up."""

    topic_pattern: Annotated[str, AfterValidator(_pattern)] = ".*"
    """A regular expression that a topic's name must match; {user} and {client_id} stand for the request's own."""

    permissive: bool = True
    """Carry out what old API versions ask for, which is always admitted. Only a gateway holds such clients back."""

    protected_topics: NameList = []
    """Topics that nobody may change, beside those of the deployment and Kafka's own. Several separated by commas."""

    group: Name = "mutation-quota-applier"
    """Under which it keeps its place. One applier of a group works, the latest that was started."""

    auto_offset_reset: Literal["earliest", "latest"] = "earliest"
    """Where a new group begins among the decisions."""


class ClientSettings(_Section):
    """What applications' `QuotaAdminClient` and `mutation-quota topics` do."""

    user: str = ""
    """The principal; empty for sasl.username, or ANONYMOUS."""

    client_id: str = ""
    """The client-id; empty for client.id."""

    applied_by: Literal["client", "applier", "nobody"] = "client"
    """Who carries admitted mutations out: the client by its own rights, an applier, or someone behind a gateway."""

    when_silent: Literal["closed", "open"] = "closed"
    """What to do when no decision comes: fail closed, with an error at the time limit, or open, and go on."""

    open_after_ms: Count = 10_000
    """How long a client that fails open waits for a decision."""

    api_timeout_ms: Count = 60_000
    """The time limit of a call, Kafka's default.api.timeout.ms."""


class MetricsSettings(_Section):
    """What a running job tells Prometheus."""

    port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """Where it is read, as http://address:port/metrics; 0: nowhere. Each job of a machine needs one of its own."""

    address: Name = "127.0.0.1"
    """Whom it is served to: this machine alone, or 0.0.0.0 for all that reach it. It names users and client-ids."""

    max_tenants: Annotated[int, Field(ge=1, le=100_000)] = 500
    """How many tenants have series of their own, the busiest; all others are in the sums alone."""


class SparkSettings(_Section):
    """The engine; `master`, `driver_memory` and `jars` count where the jobs start it, and not spark-submit."""

    master: Name = "local[*]"
    driver_memory: Memory = "1g"
    """Heap of the driver, which does all the work where master is local."""

    worker_memory: Memory = "2g"
    """Address space that each Python worker may use."""

    jars: Name = ".jars/spark"
    """The folder of the connector's jars, relative to the checkout."""

    conf: dict[Name, str] = {}
    """Any Spark property, over what was measured to pay; not over what other sections come to."""


class BrokerSettings(_Section):
    """The embedded Kafka."""

    jars: Name = ".jars/broker"
    """The folder of the broker's jars, relative to the checkout."""

    memory: Memory = "256m"
    """Heap of the broker."""
