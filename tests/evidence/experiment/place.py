"""The cluster of the experiment, embedded or named in the settings, and its clients."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from confluent_kafka.admin import AdminClient

from jobs.sandbox.broker import embedded_broker, with_plaintext_cluster
from quota.kafka.admin.client import QuotaAdminClient
from quota.kafka.clients import client_config
from quota.kafka.topics.preparation import prepare_topics
from quota.settings import Settings

_LISTING_SECONDS = 30.0
_AT_ONCE = 50


def deployment(settings: Settings, prefix: str, folder: str) -> Settings:
    """Return settings of a deployment with its own topics and storage root."""
    topics = {part: f"{prefix}-{part}" for part in _topics(settings)}
    return settings.model_copy(
        update={
            "topics": settings.topics.model_copy(update=topics),
            "storage": settings.storage.model_copy(update={"root": folder}),
        }
    )


def _topics(settings: Settings) -> dict[str, str]:
    """Return the names of the topics by their setting."""
    return {part: name for part, name in settings.topics if name in settings.topics.names}


@contextmanager
def cluster(settings: Settings, prefix: str, *, embedded: bool) -> Iterator[tuple[Settings, Callable[[], None]]]:
    """Provide the cluster inside the block, and a function that raises if it has ended."""
    if embedded:
        with embedded_broker(settings, port=0) as broker:
            yield with_plaintext_cluster(settings, broker.address), broker.check
        return
    prepare_topics(settings)
    try:
        yield settings, lambda: None
    finally:
        for cluster in {settings.kafka.connection, settings.target_connection}:
            _clear(AdminClient(client_config(cluster)), prefix)


def _clear(admin: AdminClient, prefix: str) -> None:
    """Remove the experiment's topics, slowly enough not to be a storm."""
    names = [name for name in admin.list_topics(timeout=_LISTING_SECONDS).topics if name.startswith(prefix)]
    for some in portions(names, _AT_ONCE):
        for future in admin.delete_topics(list(some)).values():
            future.result()


def portions(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Yield names in portions of at most `size`."""
    return (names[first : first + size] for first in range(0, len(names), size))


def plain_client(settings: Settings) -> AdminClient:
    """Return a client that calls the cluster directly."""
    return AdminClient(client_config(settings.target_connection))


def deciding_client(stack: ExitStack, settings: Settings, user: str) -> QuotaAdminClient:
    """Return a client that requests decisions and applies admitted changes itself."""
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
