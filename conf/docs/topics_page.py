"""Generates the reference of the topics from the specs with which missing topics are created."""

import re
from collections.abc import Iterator

from conf.docs.markdown import code, table
from quota.kafka.topics.preparation import replicated
from quota.kafka.topics.specs import topic_specs
from quota.settings import Settings

_SERVERS = "kafka-1:9092"
_BROKERS = 3
_HEAD = ("topic", "setting", "partitions", "timestamps", "cleanup", "other configs")
_SHOWN = ("message.timestamp.type", "cleanup.policy")


def topic_table() -> Iterator[str]:
    """Yield a table of the topics with their default configs."""
    settings = Settings()
    names = {name: key for key, name in settings.topics if isinstance(name, str)}

    def rows() -> Iterator[tuple[str, ...]]:
        for spec in topic_specs(settings):
            others = [f"{name}={value}" for name, value in spec.configs.items() if name not in _SHOWN]
            yield (
                code(spec.name),
                code(f"topics.{names[spec.name]}"),
                str(spec.partitions),
                spec.configs.get("message.timestamp.type", "any"),
                spec.configs.get("cleanup.policy", "delete"),
                ", ".join(map(code, others)),
            )

    return table(_HEAD, rows())


def topic_commands() -> Iterator[str]:
    """Yield the commands that create the topics with the same configs as the jobs."""
    yield "```sh"
    yield f'topics() {{ kafka-topics.sh --bootstrap-server {_SERVERS} --command-config admin.properties "$@"; }}'
    yield ""
    settings = Settings()
    for topic_spec in topic_specs(settings):
        spec = replicated(topic_spec, settings.topics.replication_factor, _BROKERS)
        configs = "".join(f" \\\n  --config {name}={value}" for name, value in spec.configs.items())
        layout = f"--partitions {spec.partitions} --replication-factor {spec.replication_factor}"
        yield f"topics --create --topic {spec.name} {layout}{configs}"
    yield "```"


def parse_commands(page: str) -> dict[str, tuple[int, dict[str, str]]]:
    """Return the partitions and configs of the topics that a page's commands create."""
    commands = page.replace("\\\n", "")
    topics = re.findall(r"^topics --create --topic (\S+) --partitions (\d+)(.*)$", commands, re.MULTILINE)
    return {
        name: (int(partitions), dict(re.findall(r"--config ([\w.]+)=(\S+)", configs)))
        for name, partitions, configs in topics
    }
