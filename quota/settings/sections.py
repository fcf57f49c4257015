"""The sections of the settings that several jobs and commands share: what may be set, with defaults that work."""

from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator

from quota.admission.identity import topic_of
from quota.admission.policy import DEFAULT_MAX_BYTES, DEFAULT_MAX_NAME_CHARS, DEFAULT_MAX_TOPICS
from quota.algorithms.bucket import Window
from quota.records.callback import DEFAULT_CLASS, Callbacks
from quota.settings.connection import Connection
from quota.settings.security import SecuritySettings
from quota.settings.types import Count, Memory, Name, NameList, Seconds, SecondsOrZero, Section, TopicName


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


class StorageSettings(Section):
    """Where a deployment keeps what it has to keep."""

    root: Name = ".data"
    """A folder or a URL: checkpoints in <root>/checkpoints, Delta tables in <root>/tables."""

    options: dict[Name, SecretStr] = {}
    """Properties of the file system that the root is on, by Hadoop's names: fs.s3a.secret.key. All count as secrets."""


class TopicSettings(Section):
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


class QuotaSettings(Section):
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


class RepeatSettings(Section):
    """Requests that are sent twice, as by a gateway that crashed: what was admitted once is not charged again."""

    window_seconds: SecondsOrZero = 0.0
    """How long a bucket remembers the requests it has admitted; 0: not at all, so that each is charged."""

    most_per_bucket: Count = 1000
    """How many it remembers at most; then the oldest are forgotten."""


class LimitSettings(Section):
    """What a single record may ask of the jobs."""

    max_request_bytes: Annotated[int, Field(ge=1024, le=8 * 1024 * 1024)] = DEFAULT_MAX_BYTES
    """A larger record is a dead letter. The decisions and dead letters topics must take six times as much."""

    max_topics: Count = DEFAULT_MAX_TOPICS
    """A request for more topics is a dead letter."""

    max_name_chars: Count = DEFAULT_MAX_NAME_CHARS
    """A request with a longer user, client-id, request id or topic name is a dead letter."""


class ClientSettings(Section):
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


class SparkSettings(Section):
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


class BrokerSettings(Section):
    """The embedded Kafka."""

    jars: Name = ".jars/broker"
    """The folder of the broker's jars, relative to the checkout."""

    memory: Memory = "256m"
    """Heap of the broker."""
