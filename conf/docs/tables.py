"""The reference of the metrics, of the topics and of the columns of tables, from their definitions."""

import re
from collections.abc import Iterator

from pyspark.sql.types import ArrayType, StructType

from conf.docs.markdown import code, sentence, table
from conf.docs.records import field_meanings, to_sentence
from jobs.metrics.families import METRICS, Metric
from quota.kafka.topics.preparation import replicated
from quota.kafka.topics.specs import topic_specs
from quota.settings import Settings
from schemas import tables

_COUNTED = {"batches", "brokers", "failures", "times"}
"""Units of metrics that are a number without a unit."""
_METRIC_HEAD = ("metric", "kind, labels", "meaning")


def metric_table() -> Iterator[str]:
    """Yield a table of all metrics, in the order of their definitions."""
    rows = (
        (code(metric.name), ", ".join((metric.kind, *map(code, metric.labels))), metric.meaning + _unit(metric))
        for metric in METRICS
    )
    return table(_METRIC_HEAD, rows)


def _unit(metric: Metric) -> str:
    """Return the unit of a metric, if neither its name nor its meaning has it."""
    word = metric.unit.partition(" ")[0]
    long = {"s": "seconds"}.get(word, word)
    return "" if long in metric.name or long in metric.meaning or metric.unit in _COUNTED else f" [{metric.unit}]"


_SERVERS = "kafka-1:9092"
_BROKERS = 3
_TOPIC_HEAD = ("topic", "setting", "partitions", "timestamps", "cleanup", "other configs")
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

    return table(_TOPIC_HEAD, rows())


def topic_commands() -> Iterator[str]:
    """Yield the commands that create the topics with the same configs as the jobs."""
    yield "```sh"
    yield f'topics() {{ kafka-topics.sh --bootstrap-server {_SERVERS} --command-config admin.properties "$@"; }}'
    yield ""
    settings = Settings()
    for topic_spec in topic_specs(settings):
        spec = replicated(topic_spec, _BROKERS)
        configs = "".join(f" \\\n  --config {name}={value}" for name, value in spec.configs.items())
        layout = f"--partitions {spec.partitions} --replication-factor {spec.replication_factor}"
        yield f"topics --create --topic {spec.name} {layout}{configs}"
    yield "```"


_TABLES = {
    "decisions": (tables.DECISIONS, "decision"),
    "dead_letters": (tables.DEAD_LETTERS, "dead-letter"),
    "quota_changes": (tables.QUOTA_CHANGES, "quota-log"),
}
"""The columns of each Delta table, and the record that has most of them as fields."""

_UNIT = re.compile(r" \[[^\]]+\]$")


def column_sections() -> dict[str, str]:
    """Return the columns of each Delta table, by its name: all types, and the meanings that its record has not."""
    return {name: "\n".join(_columns(schema, record)) for name, (schema, record) in _TABLES.items()}


def _columns(schema: StructType, record: str) -> Iterator[str]:
    width = max(len(field.name) for field in schema)
    yield from ("```text", *(f"{field.name:{width}}  {field.dataType.simpleString()}" for field in schema), "```", "")
    same = {(name, _UNIT.sub("", meaning)) for name, meaning in field_meanings(record).items()}
    rows = [(name, text) for name, text in _rows(schema) if (name, to_sentence(_UNIT.sub("", text))) not in same]
    yield from table(("column", "meaning"), ((code(name), sentence(meaning)) for name, meaning in rows))
    yield from ("", f"The other columns are [fields of the record](records.md#{record}), with times as timestamps.")


def _rows(schema: StructType, within: str = "") -> Iterator[tuple[str, str]]:
    """Yield each column with its meaning, followed by the fields in it."""
    for field in schema:
        name = f"{within}{field.name}"
        yield name, field.metadata["comment"]
        inner, several = field.dataType, ""
        if isinstance(inner, ArrayType):
            inner, several = inner.elementType, "[]"
        if isinstance(inner, StructType):
            yield from _rows(inner, f"{name}{several}.")
