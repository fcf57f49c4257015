"""Further properties of Kafka's clients, which the settings pass on as they are."""

from typing import Annotated

from pydantic import AfterValidator, SecretStr

from quota.settings.types import Name

_OWNED = frozenset(
    {
        "bootstrap.servers",
        "metadata.broker.list",
        "group.id",
        "group.instance.id",
        "transactional.id",
        "transaction.timeout.ms",
        "isolation.level",
        "acks",
        "request.required.acks",
        "auto.offset.reset",
        "auto.commit.interval.ms",
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
        "max.request.size",
        "buffer.memory",
        "compression.type",
        "key.serializer",
        "value.serializer",
        "key.deserializer",
        "value.deserializer",
        "interceptor.classes",
    }
)
"""What the jobs determine: which records they read, and when one counts as written. Spark refuses some of them, too."""

_OWNED_PREFIX = "enable."
_FREE = frozenset({"enable.ssl.certificate.verification", "enable.metrics.push"})


def _check_not_owned(properties: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name in properties:
        if name in _OWNED or (name.startswith(_OWNED_PREFIX) and name not in _FREE):
            raise ValueError(f"{name} is set by the jobs themselves; remove it")
        if name.endswith("_cb"):
            raise ValueError(f"{name} is a function, and these are properties; remove it")
    return properties


ClientProperties = Annotated[dict[Name, SecretStr], AfterValidator(_check_not_owned)]
"""Properties by their names in the client's own documentation. All values are treated as secrets."""

Pairs = tuple[tuple[str, str], ...]


def as_pairs(properties: dict[str, SecretStr]) -> Pairs:
    """Return properties with their values, in a form that can be hashed."""
    return tuple((name, value.get_secret_value()) for name, value in properties.items())
