"""Tables of the audit as it would have written them, without Spark."""

from datetime import UTC, datetime, timedelta

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.audit.tables import TABLES, VERSION_PROPERTY
from quota.settings.storage import table_path

_TIMES = ("timestamp", "retry_at", "expires_at", "effective_at")


def keep(settings, name, *rows, version=None):
    """Append rows to a table, which is made where it is not there."""
    (table,) = (each for each in TABLES if each.name == name)
    there = made(settings, table, str(version or table.version))
    schema = to_arrow_schema(table.schema, timezone="UTC")
    write_deltalake(there, pa.Table.from_pylist([_row(row) for row in rows], schema), mode="append")


def made(settings, table, version):
    """A table that claims a version, or none where that is empty; the one that is there where there is one."""
    return DeltaTable.create(
        table_path(settings, table.name),
        to_arrow_schema(table.schema, timezone="UTC"),
        mode="ignore",
        partition_by="date",
        configuration={VERSION_PROPERTY: version} if version else {},
        raise_if_key_not_exists=False,
    )


def decision_row(decision):
    """The row of a decision."""
    row = msgspec.to_builtins(decision)
    entity = decision.quota_entity
    return row | {"quota_entity": entity and entity.key.decode(), "more_tags": list(decision.more_tags.items())}


def change_row(offset, at, **fields):
    """A row of `quota_changes`, by default a quota of alice's."""
    nothing = dict.fromkeys(("controller_mutation_burst", "max_debt_ms", "callback", "callback_configs", "bucket"))
    who = {"kind": "quota", "entity": '{"user":"alice"}', "altered_by": "ann", "comment": None, "shadow": False}
    where = {"source": {"topic": "mutation-quotas", "partition": 0, "offset": offset}, "timestamp": at}
    return nothing | who | where | {"effective_at": at, "controller_mutation_rate": 5.0} | fields


def _row(row):
    times = {name: _moment(row[name]) for name in _TIMES if row.get(name) is not None}
    return row | times | {"date": times["timestamp"].date()}


def _moment(ms):
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
