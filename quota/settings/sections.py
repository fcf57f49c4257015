"""Sections of the settings that several jobs and commands share."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from quota.records.quota_log import DEFAULT_CLASS, Callbacks, Window
from quota.settings.connection import ClientProperties, Connection, Pairs, as_pairs
from quota.settings.security import SecuritySettings
from quota.settings.types import (
    MAX_PORT,
    Address,
    Count,
    Memory,
    Name,
    NameList,
    RejectionMessage,
    Seconds,
    SecondsOrZero,
    Section,
    Servers,
    ServersOrEmpty,
    TopicName,
)


class KafkaSettings(SecuritySettings):
    """The cluster that stores requests, decisions and quotas."""

    bootstrap_servers: Servers = "127.0.0.1:9092"
    """Bootstrap servers as `host:port`, separated by commas."""

    timeout_seconds: Seconds = 5.0
    """Time that a cluster may take to answer a command."""

    target_servers: ServersOrEmpty = ""
    """Bootstrap servers of the target cluster, whose topics are created, grown and deleted. Empty for this cluster."""

    java: ClientProperties = {}
    """Further properties of Kafka's Java client, which Spark uses."""

    @property
    def connection(self) -> Connection:
        """The connection to this cluster."""
        return Connection(self.bootstrap_servers, self.security)

    def _java(self) -> Pairs:
        return as_pairs(self.java)

    @model_validator(mode="after")
    def _check_security(self) -> Self:
        for problem in self.problems():
            raise ValueError(problem)
        return self


class TopicSettings(Section):
    """The topics of a deployment, and how missing ones are created."""

    requests: TopicName = "mutation-requests"
    """Topic of requests, and prefix of users' own topics (`identity`)."""

    decisions: TopicName = "mutation-decisions"
    """Topic of decisions."""

    dead_letters: TopicName = "mutation-dead-letters"
    """Topic of invalid records."""

    quotas: TopicName = "mutation-quotas"
    """Quota topic: the log of quotas, compacted."""

    results: TopicName = "mutation-results"
    """Topic of the applier's results."""

    positions: TopicName = "mutation-positions"
    """Topic of the positions of appliers and of `observe follow`, compacted."""

    identity: Literal["payload", "topic"] = "payload"
    """Source of a request's user: its `payload`, written by a trusted gateway, or its `topic`, `<requests>.<user>`."""

    retired_users: NameList = []
    """Users whose topics were deleted for good; any other deleted topic stops the job."""

    create: bool = True
    """Whether missing topics are created, with the configs they need: on a cluster of three brokers or more with three
    replicas and min.insync.replicas=2, otherwise with the cluster's default."""

    partitions: Annotated[int, Field(ge=1, le=10_000)] = 2
    """Number of partitions of topics created. The quota topic always has one, to order its changes."""

    @property
    def user_topic_prefix(self) -> str | None:
        """The prefix of users' topics if topics identify users, else None."""
        return self.requests if self.identity == "topic" else None

    @property
    def names(self) -> list[str]:
        """The topics of a deployment, without those of users."""
        return [self.requests, self.decisions, self.dead_letters, self.quotas, self.results, self.positions]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = self.names
        for name in names:
            if name in {".", ".."}:
                raise ValueError(f"{name} is not a valid topic name")
            if names.count(name) > 1:
                raise ValueError(f"{name} is the name of two topics; each needs its own name")
            if self.user_topic_prefix is not None and name.startswith(f"{self.user_topic_prefix}."):
                raise ValueError(f"{name} would be a user's topic (topics.identity=topic)")
        return self


class QuotaSettings(Section):
    """Quota enforcement: window, exemptions, shadow mode and callback."""

    window_num: Count = 11
    """Number of windows (S), Kafka's `controller.quota.window.num`. The default burst of a quota is rate * S * W."""

    window_size_seconds: Count = 1
    """Length of a window (W), Kafka's `controller.quota.window.size.seconds`."""

    exempt_users: NameList = []
    """Principals that are never throttled, such as super users and operators' tools."""

    shadow: bool = False
    """Whether all requests are admitted, and those that would have been rejected are only reported."""

    rejection_message: RejectionMessage = "{reason}"
    """Error message of a topic that a quota rejects, for its client: `{reason}` is a sentence on what was exceeded, by
    how much and when to try again, as in `{reason}; quotas: wiki/kafka`. Empty sends none."""

    callback_class: Name = DEFAULT_CLASS
    """KIP-257 callback: the class that decides which requests share a quota, and how large the quota is."""

    callback_classes: NameList = []
    """Other callback classes that the quota log may switch to while the jobs run."""

    callback_configs: dict[Name, str] = {}
    """Configs of the callback."""

    @property
    def callbacks(self) -> Callbacks:
        """The configured callback, and the classes that may replace it."""
        configs = tuple(sorted(self.callback_configs.items()))
        return Callbacks(self.callback_class, configs, frozenset(self.callback_classes))

    @property
    def window(self) -> Window:
        """S and W."""
        return Window(self.window_num, self.window_size_seconds)


class RepeatSettings(Section):
    """Deduplication: mutations in a repeated request, such as a crashed gateway's, are charged once."""

    window_seconds: SecondsOrZero = 60.0
    """Time for which a bucket remembers an admitted request after it or its last repeat. 0 turns deduplication off."""


class ClientSettings(Section):
    """Applications' `QuotaAdminClient`."""

    user: str = ""
    """Principal of requests. Empty for `sasl.username`, the subject of the token (OAUTHBEARER), or `ANONYMOUS`."""


class MetricsSettings(Section):
    """The HTTP endpoint of each running job: `/metrics` for Prometheus, `/healthz` and `/readyz` for probes."""

    port: Annotated[int, Field(ge=0, le=MAX_PORT)] = 0
    """Port of the endpoint. 0 turns it off. Each job on a machine needs its own."""

    address: Address = "127.0.0.1"
    """Address to listen on. `0.0.0.0` serves all that reach this machine; metrics name users and client-ids."""


class LoggingSettings(Section):
    """The log of all programs, on standard error."""

    format: Literal["text", "json"] = "text"
    """Format of the log: `text` for people, or `json`, one event a line, also of Spark's JVM and its workers."""


class SparkSettings(Section):
    """Spark. Under spark-submit, `master`, `driver_memory` and `jars` have no effect."""

    master: Name = "local[*]"
    """Spark master URL."""

    driver_memory: Memory = "1g"
    """Heap of the driver, in `m` or `g`. With a local master it runs all tasks."""

    worker_memory: Memory = "2g"
    """Maximum address space of each Python worker, in `m` or `g`."""

    jars: str = ""
    """Folder of jars that Spark does not contain: Delta, and the connector to Kafka. Empty for those installed."""

    class_archives: str = ""
    """Folder of class archives, with which a job starts faster; empty: none.

    A job writes its archive (200 MB) when it is stopped and has none for these jars and this Java.
    """

    fail_on_data_loss: bool = True
    """Whether a query fails if records were removed from their topics unread. Otherwise they are skipped."""

    conf: dict[Name, str] = {}
    """Spark properties. They override the jobs' tuned values, but not properties that other settings determine."""


class BrokerSettings(Section):
    """The embedded Kafka broker."""

    jars: str = ""
    """Folder of the broker's jars; empty for those installed. If it is set, the gateway and `quotas push` speak the
    protocol of the jar of Kafka's clients in it."""
