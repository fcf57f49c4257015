"""Further properties of Kafka's clients, which are passed to them unchanged."""

from typing import Annotated

from pydantic import AfterValidator, SecretStr

from quota.settings.types import Name

_SECURITY = ("security.", "sasl.", "ssl.", "https.", "enable.ssl.")

_OWNED = frozenset(
    {
        "bootstrap.servers",
        "metadata.broker.list",
        "topic.blacklist",
        "allow.auto.create.topics",
        "group.id",
        "group.instance.id",
        "transactional.id",
        "transaction.timeout.ms",
        "isolation.level",
        "acks",
        "request.required.acks",
        "retries",
        "message.send.max.retries",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "queuing.strategy",
        "delivery.report.only.error",
        "auto.offset.reset",
        "auto.commit.interval.ms",
        "auto.commit.enable",
        "log_level",
        "linger.ms",
        "queue.buffering.max.ms",
        "message.max.bytes",
        "message.timeout.ms",
        "delivery.timeout.ms",
        "fetch.wait.max.ms",
        "fetch.max.wait.ms",
        "queued.max.messages.kbytes",
        "max.poll.records",
        "max.partition.fetch.bytes",
        "fetch.message.max.bytes",
        "max.request.size",
        "buffer.memory",
        "compression.type",
        "compression.codec",
        "key.serializer",
        "value.serializer",
        "key.deserializer",
        "value.deserializer",
        "interceptor.classes",
        "plugin.library.paths",
    }
)
"""The properties that the jobs set themselves, under all their names. They determine topics, the records that are read,
the order, retries and acknowledgement of writes, memory, and code that sees all records. Spark refuses some of them,
too."""

_OWNED_PREFIXES = ("enable.", "partitioner.")  # librdkafka's `partitioner` may be that of Java's producers
_OF_TOPICS = "topic."
"""What confluent-kafka takes before the names of librdkafka's properties of topics, as in `topic.acks`."""
_FREE = frozenset({"enable.ssl.certificate.verification", "enable.metrics.push"})


def _is_owned(name: str) -> bool:
    return name in _OWNED or (name.startswith(_OWNED_PREFIXES) and name not in _FREE)


def _check_not_owned(properties: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name in properties:
        plain = name.strip().lower()  # Spark's options ignore case
        if _is_owned(plain) or _is_owned(plain.removeprefix(_OF_TOPICS)):
            raise ValueError(f"the jobs themselves set {name}; remove it")
        if plain.endswith("_cb"):
            raise ValueError(f"{name} is a function, and these are properties; remove it")
    return properties


ClientProperties = Annotated[dict[Name, SecretStr], AfterValidator(_check_not_owned)]
"""Properties by their names in the client's own documentation. All values are treated as secrets."""

Pairs = tuple[tuple[str, str], ...]


def is_security(name: str) -> bool:
    """Return whether a property changes how a client protects its connection, or where and how it logs in."""
    return name.startswith(_SECURITY)


def as_pairs(properties: dict[str, SecretStr]) -> Pairs:
    """Return properties with their values, in a form that can be hashed."""
    return tuple((name, value.get_secret_value()) for name, value in properties.items())
