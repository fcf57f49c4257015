"""Rows of the audit tables, and the Delta tables that they are written to and read from, without Spark."""

import json
import random
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.audit.append import AuditConfig, append_records
from jobs.audit.tables import DEAD_LETTERS, DECISIONS, QUOTA_CHANGES, TABLES, VERSION_PROPERTY, prepare_tables
from quota.algorithms.token_bucket import TokenBucket
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.quota_log import Window
from quota.whatif.simulation import read_quotas, simulate
from tests.support.factories import PERMISSIVE, STRICT, request_json
from tests.support.rows import record_batch

DAY = int(datetime(2026, 11, 21, tzinfo=UTC).timestamp() * 1000)
MINUTE, HOUR = 60_000, 3_600_000

_TIMES = ("timestamp", "retry_at", "expires_at", "effective_at")


def moment(ms):
    """Return a time in epoch ms as a datetime in UTC."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def decision(at, *, user="alice", client="", admitted=(), rejected=(), throttled_ms=0, latency_ms=100, **fields):  # noqa: PLR0913
    """Return a row of `decisions`; `admitted` and `rejected` are the partitions of its topics."""
    answers = [(0, "NONE", admitted), (89, "THROTTLING_QUOTA_EXCEEDED", rejected)]
    topics = [
        {"name": "t", "partitions": partitions, "error_code": code, "error": error}
        for code, error, sizes in answers
        for partitions in sizes
    ]
    row = {
        "date": moment(at).date(),
        "decision_id": f"requests-0-{at}",
        "source": {"topic": "requests", "partition": 0, "offset": at},
        "timestamp": moment(at),
        "decided_at": moment(at + latency_ms),
        "retry_at": moment(at + throttled_ms),
        "user": user,
        "client_id": client or "<none>",
        "request_id": "r",
        "operation": "CREATE_TOPICS",
        "mode": "STRICT",
        "outcome": "REJECTED" if rejected else "ADMITTED",
        "validate_only": False,
        "user_tag": user,
        "client_tag": client,
        "more_tags": [],
        "quota": 5.0,
        "burst": 55.0,
        "tokens_before": 55.0,
        "tokens": 55.0,
        "controller_throttle_ms": throttled_ms,
        "request_throttle_ms": 0,
        "throttle_time_ms": throttled_ms,
        "topics": topics,
    }
    return row | fields


def letter(at, error):
    """Return a row of `dead_letters`."""
    source = {"topic": "mutation-requests", "partition": 0, "offset": at}
    return {"date": moment(at).date(), "source": source, "timestamp": moment(at), "error": error, "value": ""}


def change(at, *, user="alice", rate=5.0, **fields):
    """Return a row of `quota_changes` that sets the quota of a user."""
    row = {
        "date": moment(at).date(),
        "source": {"topic": "quotas", "partition": 0, "offset": at},
        "timestamp": moment(at),
        "effective_at": moment(at),
        "kind": "quota",
        "entity": json.dumps({"user": user}),
        "user": user or "<default>",
        "controller_mutation_rate": rate,
    }
    return row | fields


def decision_row(decision):
    """Return the row of a `Decision`, with times in epoch ms."""
    row = msgspec.to_builtins(decision)
    entity = decision.quota_entity
    return row | {"quota_entity": entity and entity.key.decode(), "more_tags": list(decision.more_tags.items())}


def quota_change_row(offset, at, **fields):
    """Return a row of `quota_changes` with times in epoch ms, by default a quota of alice."""
    nothing = dict.fromkeys(("controller_mutation_burst", "max_debt_ms", "callback", "callback_configs", "bucket"))
    who = {"kind": "quota", "entity": '{"user":"alice"}', "altered_by": "ann", "comment": None, "shadow": False}
    where = {"source": {"topic": "mutation-quotas", "partition": 0, "offset": offset}, "timestamp": at}
    return nothing | who | where | {"effective_at": at, "controller_mutation_rate": 5.0} | fields


def arrow_tables(decisions=(), letters=(), changes=()):
    """Return rows as Arrow tables by name."""
    rows = {DECISIONS: decisions, DEAD_LETTERS: letters, QUOTA_CHANGES: changes}
    return {table.name: _arrow(table, rows[table]) for table in TABLES}


def write_tables(settings, versions=(), **rows):
    """Write rows to Delta tables; `versions` overrides the version that a table claims, by name."""
    tables = arrow_tables(**rows)
    for table in TABLES:
        version = dict(versions).get(table.name, str(table.version))
        write_deltalake(create_table(settings, table, version), tables[table.name], mode="append")


def data_of(page):
    """Return the data in the page of a report."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def append_rows(settings, name, *rows, version=None):
    """Append rows to a Delta table, which is created if it does not exist."""
    (table,) = (table for table in TABLES if table.name == name)
    there = create_table(settings, table, str(version or table.version))
    write_deltalake(there, _arrow(table, map(_with_times, rows)), mode="append")


def create_table(settings, table, version):
    """Return an existing Delta table, or a new one that claims a version; an empty version claims none."""
    return DeltaTable.create(
        settings.storage.table(table.name),
        to_arrow_schema(table.schema, timezone="UTC"),
        mode="ignore",
        partition_by="date",
        configuration={VERSION_PROPERTY: version} if version else {},
        raise_if_key_not_exists=False,
    )


def names_in(settings):
    """Return the function that lists a folder of a deployment's storage root, on a local disk."""

    def names(folder):
        path = Path(settings.storage.root, folder)
        return sorted(file.name for file in path.iterdir()) if path.exists() else []

    return names


def audit_records(settings, *batches):
    """Audit batches of rows of `schemas.kafka.RECORD` as a micro-batch, without Spark."""
    prepare_tables(settings, names_in(settings))
    assert list(append_records(AuditConfig.of(settings), map(record_batch, batches))) == []


def read_table(settings, name):
    """Return the rows of a Delta table as dicts."""
    # Not by `to_pyarrow_table`: Arrow's threads would call Python, also while the interpreter ends.
    table = DeltaTable(settings.storage.table(name), storage_options=settings.storage.deltalake())
    return pa.RecordBatchReader.from_stream(table.scan()).read_all().to_pylist()


def _arrow(table, rows):
    return pa.Table.from_pylist(list(rows), to_arrow_schema(table.schema, timezone="UTC"))


def _with_times(row):
    times = {name: moment(row[name]) for name in _TIMES if row.get(name) is not None}
    return row | times | {"date": times["timestamp"].date()}


QUOTAS = [
    {"entity": {"user": None}, "controller_mutation_rate": 2.0},
    {"entity": {"user": "etl", "client-id": "nightly"}, "controller_mutation_rate": 20.0},
    {
        "entity": {"user": "etl", "client-id": "nightly"},
        "controller_mutation_rate": 8.0,
        "effective_at": DAY + 13 * HOUR,
    },
    {"entity": {"user": "checkout"}, "controller_mutation_rate": 5.0, "effective_at": DAY + 9 * HOUR},
    {"entity": {"user": "rogue"}, "controller_mutation_rate": 1.0, "effective_at": DAY + 15 * HOUR},
]
_COMMENTS = {8.0: ("ann", "nightly runs by day, too"), 5.0: ("ben", "sale begins"), 1.0: ("ann", "the loop of rogue")}

USERS = [
    *("checkout", "orders", "payments", "billing", "search", "catalog", "pricing", "stock", "returns", "fraud"),
    *("mail", "audit", "metrics", "sessions", "geo", "ads", "reviews", "legacy", "rogue", "données-été"),
]


def rows_of_a_day():
    """Return the rows of a day: about twenty tenants, busier by day, a loop that storms, and nightly batches."""
    chance = random.Random(599)
    requests = [request for user in USERS for request in _steady(chance, user)]
    requests += [
        (DAY + hour * HOUR + chance.randrange(20 * MINUTE), "etl", "nightly", [chance.randint(4, 16)] * 12)
        for hour in (1, 2, 3, 13, 14, 23)
        for _ in range(25)
    ]
    storm = DAY + 14 * HOUR + 20 * MINUTE
    requests += [(storm + number * 900 + chance.randrange(500), "rogue", "loop", [20, 20]) for number in range(3500)]
    requests.sort()
    lines = [
        request_json(
            *sizes, timestamp=at, user=user, client_id=client, api_version=PERMISSIVE if user == "legacy" else STRICT
        )
        for at, user, client, sizes in requests
    ]
    for line in chance.sample(range(len(lines)), 60):
        at = json.loads(lines[line])["timestamp"]
        lines[line] = json.dumps({"timestamp": at} | chance.choice(_GARBAGE)).encode()
    quotas = read_quotas(json.dumps(quota).encode() for quota in QUOTAS)
    answers = list(simulate(lines, quotas, TokenBucket(Window())))
    letters = [letter(answer.timestamp, answer.error) for answer in answers if isinstance(answer, DeadLetter)]
    decided = [_row(answer, _latency(chance)) for answer in answers if not isinstance(answer, DeadLetter)]
    return {"decisions": decided, "letters": letters, "changes": [_change(quota) for quota in QUOTAS]}


_GARBAGE = [
    {"request_id": "x", "operation": "CREATE_TOPIC"},
    {"request_id": "x", "operation": "CREATE_TOPICS", "api_version": 7, "topics": []},
    {"request_id": 7},
    {"request_id": "x", "operation": "CREATE_TOPICS", "api_version": 7, "topics": [{"name": "a", "partitions": -1}]},
]


def _steady(chance, user):
    busy = chance.uniform(0.3, 2.5)
    for minute in range(24 * 60):
        by_day = 1.0 if 8 <= minute // 60 < 19 else 0.25
        if chance.random() < busy * by_day / 6:
            sizes = [chance.choice([1, 3, 6, 12]) for _ in range(chance.randint(1, 3))]
            yield DAY + minute * MINUTE + chance.randrange(MINUTE), user, "app", sizes


def _latency(chance):
    return round(chance.lognormvariate(5.3, 0.45))


def _row(answer, latency_ms):
    row = json.loads(codec.encode(answer))
    at = row["timestamp"]
    row |= {name: None if row[name] is None else moment(row[name]) for name in _TIMES if name in row}
    row |= {
        "date": moment(at).date(),
        "decided_at": moment(at + latency_ms),
        "more_tags": list(row["more_tags"].items()),
    }
    return row | {"quota_entity": json.dumps(row["quota_entity"])}


def _change(quota):
    at = quota.get("effective_at", DAY - 30 * 24 * HOUR)
    by, comment = _COMMENTS.get(quota["controller_mutation_rate"], ("ann", "to begin with"))
    entity = quota["entity"]
    return change(
        at,
        user=entity["user"],
        rate=quota["controller_mutation_rate"],
        entity=json.dumps(entity),
        client_id=entity.get("client-id"),
        altered_by=by,
        comment=comment,
    )
