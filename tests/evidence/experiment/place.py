"""Where the experiment takes place: a cluster of its own or a named one, and the clients that speak to it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from confluent_kafka.admin import AdminClient

from jobs.sandbox.broker import at, embedded_broker
from quota.kafka.admin.client import QuotaAdminClient
from quota.kafka.clients import client_config
from quota.kafka.topics.specs import prepare_topics
from quota.settings.model import Settings

_LISTING_SECONDS = 30.0
_AT_ONCE = 50


def deployment(settings: Settings, prefix: str, folder: str) -> Settings:
    """Settings of a deployment of its own, which leaves nothing behind."""
    topics = {part: f"{prefix}-{part}" for part in _topics(settings)}
    return settings.model_copy(
        update={
            "topics": settings.topics.model_copy(update=topics),
            "storage": settings.storage.model_copy(update={"root": folder}),
        }
    )


def _topics(settings: Settings) -> dict[str, str]:
    """The names of the topics, by what they are for."""
    return {part: name for part, name in settings.topics if name in settings.topics.names}


@contextmanager
def cluster(settings: Settings, prefix: str, *, embedded: bool) -> Iterator[tuple[Settings, Callable[[], None]]]:
    """The cluster, and what raises if it is gone."""
    if embedded:
        with embedded_broker(settings, port=0) as broker:
            yield at(settings, broker.address), broker.check
        return
    prepare_topics(settings)
    try:
        yield settings, lambda: None
    finally:
        for cluster in {settings.kafka.connection, settings.target_connection}:
            _clear(AdminClient(client_config(cluster)), prefix)


def _clear(admin: AdminClient, prefix: str) -> None:
    """Remove the experiment's topics, slowly enough to be no storm."""
    names = [name for name in admin.list_topics(timeout=_LISTING_SECONDS).topics if name.startswith(prefix)]
    for some in portions(names, _AT_ONCE):
        for future in admin.delete_topics(list(some)).values():
            future.result()


def portions(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Names, so many at a time."""
    return (names[first : first + size] for first in range(0, len(names), size))


def plain_client(settings: Settings) -> AdminClient:
    """A client that goes straight to the cluster."""
    return AdminClient(client_config(settings.target_connection))


def deciding_client(stack: ExitStack, settings: Settings, user: str) -> QuotaAdminClient:
    """A client that keeps to the quotas and carries out itself what is admitted."""
    own = {
        "client.user": user,
        "client.applied_by": "client",
        "kafka.bootstrap_servers": settings.kafka.bootstrap_servers,
        **{f"topics.{part}": name for part, name in _topics(settings).items()},
    }
    named = {f"mutation.quota.{name}": value for name, value in own.items()}
    client = QuotaAdminClient({**client_config(settings.target_connection), **named})
    stack.callback(client.close, wait=False)
    return client
