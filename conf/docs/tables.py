"""The reference of the metrics, of the topics and of the columns of tables, from their definitions."""

import re
from collections.abc import Iterator

from pyspark.sql.types import ArrayType, DataType, StructType

from conf.docs.markdown import code, sentence, table
from jobs.metrics.families import METRICS
from quota.kafka.topics.preparation import replicated
from quota.kafka.topics.specs import topic_specs
from quota.settings import Settings
from schemas import tables

_METRIC_HEAD = ("metric", "kind", "unit", "labels", "meaning")


def metric_table() -> Iterator[str]:
    """Yield a table of all metrics, in the order of their definitions."""
    rows = (
        (code(metric.name), metric.kind, metric.unit, ", ".join(map(code, metric.labels)), metric.meaning)
        for metric in METRICS
    )
    return table(_METRIC_HEAD, rows)


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
    "decisions": tables.DECISIONS,
    "dead_letters": tables.DEAD_LETTERS,
    "quota_changes": tables.QUOTA_CHANGES,
}
_UNIT = re.compile(r"(?P<meaning>.*) \[(?P<unit>[^\]]+)\]")


def column_sections() -> dict[str, str]:
    """Return the table of the columns of each Delta table, by its name."""
    head = ("column", "type", "unit", "meaning")
    return {name: "\n".join(table(head, list(_rows(schema)))) for name, schema in _TABLES.items()}


def _rows(schema: StructType, within: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for each column, followed by the fields in it."""
    for field in schema:
        name, comment = f"{within}{field.name}", field.metadata["comment"]
        match = _UNIT.fullmatch(comment)
        meaning, unit = (match["meaning"], match["unit"]) if match else (comment, "")
        yield code(name), code(_type(field.dataType)), unit, sentence(meaning)
        inner, several = field.dataType, ""
        if isinstance(inner, ArrayType):
            inner, several = inner.elementType, "[]"
        if isinstance(inner, StructType):
            yield from _rows(inner, f"{name}{several}.")


def _type(kind: DataType) -> str:
    if isinstance(kind, StructType):
        return "struct"
    if isinstance(kind, ArrayType):
        return f"array of {_type(kind.elementType)}"
    return kind.simpleString()
