"""The embedded broker as the settings want it, with its topics."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobs.sandbox.broker import Broker
from jobs.spark.installation import jars_folder
from quota.kafka.topics.specs import prepare_topics
from quota.settings.loading import Settings
from quota.settings.sections import KafkaSettings, TargetSettings
from quota.settings.storage import local_folder


@contextmanager
def embedded_broker(settings: Settings, port: int, data: Path | None = None) -> Iterator[Broker]:
    """A broker that runs inside the block, its topics made; its data is in `<storage.root>/broker` by default."""
    folder = data or local_folder(settings, "broker")
    broker = Broker(folder, jars_folder(settings.broker.jars), port, settings.broker.memory)
    with broker:
        prepare_topics(at(settings, broker.address))
        yield broker


def at(settings: Settings, bootstrap_servers: str) -> Settings:
    """The same settings for a cluster of one's own, which has neither TLS nor SASL."""
    kafka = KafkaSettings(bootstrap_servers=bootstrap_servers, timeout_seconds=settings.kafka.timeout_seconds)
    return settings.model_copy(update={"kafka": kafka, "target": TargetSettings()})
