"""The page docs/evidence/replay.md."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass

from tests.evidence.pages import versions
from tests.evidence.replay.tally import Counting, mutant_table, tally_table


@dataclass(frozen=True, slots=True)
class Result:
    """The results of a run of the program."""

    seed: int
    tallies: Mapping[str, Counting]
    noticed: Mapping[str, int | None]
    seconds: float


def page(result: Result) -> str:
    """Return the page in Markdown."""
    again = f"python -m tests.evidence.replay --seed {result.seed}"
    return f"""\
# Any cut of the stream

Written by `make replay`, which does it again: `{again}` draws the same logs.

Random logs of requests go through the enforcing query on Spark, from files in place of a request topic's partitions:
several users and client-ids, quotas of all levels, so that buckets are shared, with rates, bursts, changes and resets
in between, strict, permissive and validate-only requests of several topics, bad records, ties of the clock and steps
back. Many requests are sent again, alike or with something else under the same id; three logs in four remember requests
(`repeats.window_seconds`), for 3 or 20 seconds, some no more than one or two of a bucket.

Each log is cut at random into batches, each partition elsewhere, and runs with one to four state partitions, with
one row or a thousand in a record batch, its rows arriving in any order and in two tasks, over a restart from the
checkpoint, or over one after a batch that was done but not noted as done, the stateful stage through pandas or
without it, before the restart and after it. Quota changes are known from the
beginning, or no sooner than they must be.

**One partition a bucket**, which is what a producer's record key is for: uncut and cut twice, all answers are the
same bytes.

**Several partitions a bucket**: what is guaranteed is that requests of one batch are decided by timestamp, partition
and offset, where the timestamp is the highest that the partition has had so far among the bucket's requests of that
batch, and batches one after the other. Two runs of the same batches give the same bytes, whatever else differs.
Batches that are cut elsewhere may decide otherwise.

In both the decisions must be those of a reference that shares no code with the job: it reads requests with another
JSON reader, looks each quota up in the list of all changes, compares requests word for word, and reckons in fractions.
Topics admitted, quotas, buckets and which request repeats which must be the same, tokens within 1e-9 of theirs,
throttle times to the millisecond but for what rounding leaves in doubt. (The bucket's arithmetic beside Kafka's own
classes: [conformance](conformance.md).)

Seed {result.seed}, {result.seconds:.0f} s, {versions("pyspark")}, Python {platform.python_version()}; records,
and what is counted of them, in each run anew:

{tally_table(result.tallies).markdown()}

## Whether it would be noticed

The same with the job broken in one way at a time, inside Spark's workers. A log that shows it is looked for with the
query's two Python stages alone, and then goes through Spark, which must show it too. A quarter of an hour of logs is
no proof; that each of these is noticed within some logs says how close the net is.

{mutant_table(result.noticed).markdown()}
"""
