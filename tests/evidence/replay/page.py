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
# Batches cut at random

`make replay` repeats this experiment and writes this page. `{again}` generates the same logs.

The enforcing query processes random request logs on Spark; files take the place of the request topic's partitions. The
logs contain:

- several users and client-ids, and quotas of all levels, so that requests share buckets
- rates and bursts, with quota changes and resets between requests
- strict, permissive and validate-only requests of several topics, and invalid records
- equal timestamps, and timestamps that step back
- requests that are sent again, with the same or other content under the same id; three of four logs remember requests
  (`repeats.window_seconds`) for 3 or 20 seconds, some of them only one or two per bucket

Each log is cut into batches at random, at different places in each partition. It is processed with one to four state
partitions, with one row or a thousand in a record batch, and with rows that arrive in any order and in two tasks. Some
runs restart from the checkpoint, also after a batch that was processed but not committed. The stateful stage runs with
or without pandas, before and after the restart. Quota changes are known from the beginning, or only as late as
permitted.

**One partition per bucket**, which the record key of a producer ensures: the uncut log and two ways to cut it must give
byte-identical answers.

**Several partitions per bucket**: batches are decided one after the other, and the requests of a batch are decided in
the order of timestamp, partition and offset. The timestamp here is the highest one so far among the bucket's requests
of that batch in that partition. Two runs with the same batches must give byte-identical answers, whatever else differs.
Other batches may lead to other decisions.

In both cases the decisions must equal those of a reference implementation that shares no code with the job: it uses
another JSON parser, looks each quota up in the list of all changes, compares requests word for word, and computes with
fractions. Admitted topics, quotas, buckets and the request that each repeat refers to must be equal. Tokens must agree
within 1e-9, and throttle times to the millisecond, except where rounding decides. The page on
[conformance](conformance.md) compares the bucket's arithmetic with Kafka's own classes.

Seed {result.seed}, {result.seconds:.0f} s, {versions("pyspark")}, Python {platform.python_version()}.
Records count once in each run:

{tally_table(result.tallies).markdown()}

## Would a defect be noticed?

The experiment is repeated with one deliberate defect at a time in the job, inside Spark's workers. The query's two
Python stages alone process logs until one reveals the defect; Spark then processes that log and must reveal it, too.
The number of logs until a defect is noticed shows how sensitive the comparison is.

{mutant_table(result.noticed).markdown()}
"""
