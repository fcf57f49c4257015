"""What tenants' recorded requests would have needed, in Spark: a fold over each tenant's requests in their order."""

from collections.abc import Iterator
from functools import partial

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

import jobs.spark.worker  # noqa: F401 what the workers keep
from jobs.spark.bucket_order import batch_of, in_bucket_order
from quota.algorithms.bucket import Window
from quota.records.entity import QuotaEntity
from quota.whatif.recommendation import Demand
from quota.whatif.recorded import RecordedDecision
from quota.whatif.required_quota import RequiredQuota
from quota.whatif.tenancy import Tenancy
from schemas.source import SOURCE

_TOGETHER = ""
"""What stands for all tenants as one; an entity's key is never empty."""

_CHARGED = StructType(
    [
        StructField("tenant", StringType()),  # the key of its entity
        StructField("timestamp", LongType()),
        *SOURCE.fields,
        StructField("before_last", LongType()),  # mutations of all topics but the last
        StructField("last", LongType()),
    ]
)

_DEMANDS = StructType(
    [
        StructField("tenant", StringType()),
        StructField("asked", LongType()),
        StructField("largest", LongType()),
        StructField("need", DoubleType()),
        StructField("load", DoubleType()),
    ]
)

_decode = msgspec.json.Decoder(RecordedDecision).decode


def measure_demands(
    decisions: DataFrame, tenancy: Tenancy, exempt_users: frozenset[str], window: Window
) -> tuple[list[Demand], float]:
    """What each tenant would have needed, of whom anything was charged, and the load of all as one.

    Args:
        decisions: their JSON, as `jobs.whatif.recorded.Traffic` has it.
        tenancy: who a tenant is.
        exempt_users: whose requests do not count.
        window: S and W.
    """
    charged = decisions.mapInArrow(partial(_charged, tenancy, exempt_users), _CHARGED)
    rows = (
        in_bucket_order(charged, "tenant")
        .select("tenant", "timestamp", "before_last", "last")
        .mapInArrow(partial(_needed, window), _DEMANDS)
        .collect()
    )
    demands = [
        Demand(QuotaEntity.of_key(row["tenant"]), *(row[name] for name in _DEMANDS.names[1:]))
        for row in rows
        if row["tenant"] != _TOGETHER and row["asked"]
    ]
    return demands, sum(row["load"] for row in rows if row["tenant"] == _TOGETHER)


def _charged(
    tenancy: Tenancy, exempt_users: frozenset[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(_CHARGED)
    for batch in batches:
        rows = []
        for decision in map(_decode, batch.column(0).to_pylist()):
            charges = decision.charges
            if charges and decision.user not in exempt_users:
                tenant = tenancy.entity(decision.user, decision.client_id).key.decode()
                place = (decision.timestamp, *msgspec.structs.astuple(decision.source))
                charged = (*place, sum(charges[:-1]), charges[-1])
                rows += [(tenant, *charged), (_TOGETHER, *charged)]
        if rows:
            yield batch_of(rows, schema)


def _needed(window: Window, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(_DEMANDS)
    present: str | None = None
    need = RequiredQuota(window)
    for batch in batches:
        done = []
        for tenant, timestamp, before_last, last in zip(*(each.to_pylist() for each in batch.columns), strict=True):
            if tenant != present:
                if present is not None:
                    done.append(_demand(present, need))
                present, need = tenant, RequiredQuota(window)
            need.add(timestamp, (before_last, last))
        if done:
            yield batch_of(done, schema)
    if present is not None:
        yield batch_of([_demand(present, need)], schema)


def _demand(tenant: str, need: RequiredQuota) -> tuple[str, int, int, float, float]:
    return tenant, need.charged, need.largest, need.rate, need.load
