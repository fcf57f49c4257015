"""The input, the state and the output of the stateful stage of `enforce`."""

from pyspark.sql.types import BinaryType, DoubleType, LongType, StringType, StructField, StructType

from schemas import versions

STATE_VERSION = versions.STATE
"""Part of the checkpoint's path; it is raised when the state or the plan changes incompatibly."""

STATE = StructType(
    [
        StructField("K", DoubleType()),  # tokens, in partition mutations
        StructField("T", LongType()),  # when K was written, epoch ms
        StructField("rate", DoubleType()),  # the quota that was applied last, mutations/s
        StructField("burst", DoubleType()),  # its own burst, null for Q * S * W
        StructField("max_debt_ms", LongType()),  # its bound on debt, null for none
        StructField("reset_at", LongType()),  # the latest reset that the bucket has seen, epoch ms
        StructField("more", BinaryType()),  # other fields (`jobs.enforce.packing`), or null; room for later versions
    ]
)
"""One bucket, in KIP-599's names."""

RESOLVED = StructType(
    [
        StructField("bucket", StringType()),  # the tags of the bucket, or the partition of a request without one
        StructField("request", BinaryType()),  # the record and its resolution, packed by `jobs.enforce.packing`
    ]
)
"""Two columns only: each further one costs about as much per key as the whole stage."""
