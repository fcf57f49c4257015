"""A worker of PySpark without Spark: record batches in, record batches out, by PySpark's own code."""

import io
import itertools
import json
import pickle

import pyarrow as pa
from pyspark import cloudpickle, worker
from pyspark.serializers import read_int
from pyspark.sql.pandas.serializers import ApplyInPandasWithStateSerializer, ArrowStreamSerializer
from pyspark.sql.types import BinaryType, LongType, StringType, StructType
from pyspark.util import fail_on_stopiteration

STATE = StructType().add("count", LongType()).add("last", BinaryType())
OUTPUT = StructType().add("topic", StringType()).add("key", BinaryType()).add("value", BinaryType())

START_ARROW_STREAM = -6
_PROPERTIES = {
    "batchProcessingTimeMs": 1_700_000_000_000,
    "eventTimeWatermarkMs": -1,
    "timeoutConf": "NoTimeout",
    "hasTimedOut": False,
    "watermarkPresent": False,
    "defined": False,
    "updated": False,
    "removed": False,
    "timeoutTimestamp": -1,
}
_INFO = pa.struct(
    [
        ("properties", pa.string()),
        ("keyRowAsUnsafe", pa.binary()),
        ("object", pa.binary()),
        ("startOffset", pa.int32()),
        ("numRows", pa.int32()),
        ("isLastChunk", pa.bool_()),
    ]
)


def record_batches(keys, most_rows):
    """Return keys as Spark sends them.

    Args:
        keys: (key, rows, state) of each; the state is None or a value of `STATE`.
        most_rows: the rows of a record batch, which cuts keys into chunks.
    """
    batches, buckets, rows, infos = [], [], [], []

    def flush():
        length = max(len(rows), len(infos))
        columns = [pa.array([*buckets, *[None] * (length - len(rows))], pa.string())]
        columns.append(pa.array([*rows, *[None] * (length - len(rows))], pa.binary()))
        columns.append(pa.array([*infos, *[None] * (length - len(infos))], _INFO))
        batches.append(pa.RecordBatch.from_arrays(columns, ["bucket", "request", "state"]))
        for column in (buckets, rows, infos):
            column.clear()

    for key, of_key, value in keys:
        info = {
            "properties": json.dumps({**_PROPERTIES, "defined": value is not None}),
            "keyRowAsUnsafe": f"unsafe {key}".encode(),
            "object": None if value is None else pickle.dumps(value),
        }
        left = list(of_key)
        while left:
            taken, left = left[: most_rows - len(rows)], left[most_rows - len(rows) :]
            infos.append({**info, "startOffset": len(rows), "numRows": len(taken), "isLastChunk": not left})
            buckets += [key] * len(taken)
            rows += taken
            if len(rows) == most_rows:
                flush()
    if rows:
        flush()
    return batches


def run(stage, batches):
    """Return a worker's output for a stage, as (dataCount, stateCount, answers, states) of each record batch."""
    function = fail_on_stopiteration(cloudpickle.loads(cloudpickle.dumps(stage)))
    wrapped = worker.wrap_grouped_map_pandas_udf_with_state(function, OUTPUT, None)
    serializer = ApplyInPandasWithStateSerializer(
        timezone="UTC",
        safecheck=False,
        assign_cols_by_name=True,
        prefer_int_ext_dtype=False,
        state_object_schema=STATE,
        arrow_max_records_per_batch=stage.max_rows,
        prefers_large_var_types=False,
        int_to_decimal_coercion_enabled=False,
    )
    sent, got = io.BytesIO(), io.BytesIO()
    with pa.ipc.new_stream(sent, batches[0].schema) as writer:
        for batch in batches:
            writer.write(batch)
    sent.seek(0)
    serializer.dump_stream(map(_mapper(wrapped), serializer.load_stream(sent)), got)
    got.seek(0)
    assert read_int(got) == START_ARROW_STREAM
    return [_read(batch) for batch in ArrowStreamSerializer().load_stream(got)]


def _mapper(wrapped):
    """Map columns as `pyspark.worker.read_udfs` does: the first column is the key, both columns are values."""

    def mapper(arrived):
        chunks, state = arrived
        chunks = (chunk[0] for chunk in chunks)
        first = next(chunks)
        return wrapped([first[0]], ([chunk[0], chunk[1]] for chunk in itertools.chain([first], chunks)), state)

    return mapper


def _read(batch):
    counts, data, states = batch.columns
    answered, stored = counts[0].as_py().values()
    return answered, stored, data[:answered].to_pylist(), states[:stored].to_pylist()
