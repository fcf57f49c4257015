"""The stateful stage of `enforce`: what goes into it, its state, and what comes out."""

from pyspark.sql.types import BinaryType, DoubleType, LongType, StringType, StructField, StructType

STATE_VERSION = 3
"""Part of the checkpoint's path: goes up when the state or the plan changes incompatibly."""

STATE = StructType(
    [
        StructField("K", DoubleType()),  # tokens, in partition mutations
        StructField("T", LongType()),  # when K was written, epoch ms
        StructField("rate", DoubleType()),  # the quota that the bucket was last used at, mutations/s
        StructField("burst", DoubleType()),  # its own burst, null for Q * S * W
        StructField("max_debt_ms", LongType()),  # its bound on debt, null for none
        StructField("reset_at", LongType()),  # the latest reset that the bucket has followed, epoch ms
        StructField(
            "more", BinaryType()
        ),  # what else it has (`jobs.enforce.state`), else null: room for later versions
    ]
)
"""One bucket, in KIP-599's names."""

RESOLVED = StructType(
    [
        StructField("bucket", StringType()),  # the tags of the bucket; an answer that needs none goes by its partition
        StructField("request", BinaryType()),  # the record and what it is judged by, packed by `jobs.enforce.packed`
    ]
)
"""Two columns, because each further one costs about as much per key as the whole stage."""

ANSWERED = StructType([StructField("answer", BinaryType())])
