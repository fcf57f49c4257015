"""The folds of a recommendation: the quota that a tenant's recorded requests, in order, require."""

from collections.abc import Iterator
from functools import partial

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from jobs.spark.worker import prepare_worker
from jobs.whatif.engine import DECISIONS, Engine, Stage, record_batch
from quota.records.decision import Decision
from quota.records.entity import QuotaEntity
from quota.records.quota import Window
from quota.whatif.recommendation import Demand, Tenancy
from quota.whatif.required_quota import RequiredQuota
from schemas.kafka import SOURCE

_ALL_TENANTS = ""
"""The key of all tenants together; the key of an entity is never empty."""

_COSTS = StructType(
    [
        StructField("tenant", StringType()),  # the key of its entity
        StructField("timestamp", LongType()),
        *SOURCE.fields,
        StructField("before_last", LongType()),  # the mutations of all topics but the last
        StructField("last", LongType()),
    ]
)

_DEMANDS = StructType(
    [
        StructField("tenant", StringType()),
        StructField("mutations", LongType()),
        StructField("largest", LongType()),
        StructField("need", DoubleType()),
        StructField("load", DoubleType()),
    ]
)

_READ = Stage("reading costs", DECISIONS, "costs", _COSTS)
_MEASURE = Stage("measuring needs", "costs", "demands", _DEMANDS, bucket=("tenant",))

_decode = msgspec.json.Decoder(Decision).decode


def measure_demands(
    engine: Engine, tenancy: Tenancy, exempt_users: frozenset[str], window: Window
) -> tuple[list[Demand], float]:
    """Return the demand of each tenant that was charged, and the load of all tenants together."""
    engine.run(_READ, partial(_read_costs, tenancy, exempt_users))
    engine.run(_MEASURE, partial(_compute_demands, window))
    rows = engine.query("SELECT tenant, mutations, largest, need, load FROM demands")
    demands = [
        Demand(QuotaEntity.from_key(tenant), mutations, *rest)
        for tenant, mutations, *rest in rows
        if tenant != _ALL_TENANTS and mutations
    ]
    return demands, sum(load for tenant, *_, load in rows if tenant == _ALL_TENANTS)


def _read_costs(
    tenancy: Tenancy, exempt_users: frozenset[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    prepare_worker(__name__)
    schema = to_arrow_schema(_COSTS)
    for batch in batches:
        rows = []
        for decision in map(_decode, batch.column(0).to_pylist()):
            costs = decision.costs
            if costs and decision.user not in exempt_users:
                tenant = tenancy.entity(decision.user, decision.client_id).key.decode()
                position = (decision.timestamp, *msgspec.structs.astuple(decision.source))
                row = (*position, sum(costs[:-1]), costs[-1])
                rows += [(tenant, *row), (_ALL_TENANTS, *row)]
        if rows:
            yield record_batch(rows, schema)


def _compute_demands(window: Window, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    prepare_worker(__name__)
    schema = to_arrow_schema(_DEMANDS)
    current: str | None = None
    required = RequiredQuota(window)
    for batch in batches:
        finished = []
        columns = (batch.column(name).to_pylist() for name in ("tenant", "timestamp", "before_last", "last"))
        for tenant, timestamp, before_last, last in zip(*columns, strict=True):
            if tenant != current:
                if current is not None:
                    finished.append(_to_row(current, required))
                current, required = tenant, RequiredQuota(window)
            required.add(timestamp, (before_last, last))
        if finished:
            yield record_batch(finished, schema)
    if current is not None:
        yield record_batch([_to_row(current, required)], schema)


def _to_row(tenant: str, required: RequiredQuota) -> tuple[str, int, int, float, float]:
    return tenant, required.charged, required.largest, required.no_rejection, required.no_debt
