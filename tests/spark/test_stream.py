"""The enforcing query over files: batches, a restart, the state, and the same answers as `simulate`."""

import json
import random
from itertools import pairwise

import pytest

from jobs.enforce.decide import EnforceConfig
from jobs.enforce.query import enforce
from quota.admission.policy import Policy
from quota.algorithms.token_bucket import TokenBucket
from quota.records import codec
from quota.records.entity import QuotaEntity
from quota.records.quota import Window
from quota.whatif.simulation import simulate
from schemas.kafka import ANSWER, RECORD
from tests.support.factories import PERMISSIVE, FixedQuotas, request_json, timeline
from tests.support.rows import answers_by_source, frame, kafka_rows

WINDOW = Window(100)
ANSWERING = EnforceConfig(WINDOW, Policy(), "decisions", "dead-letters")
USER_DEFAULTS, ALICE = QuotaEntity(None), QuotaEntity("alice")


class Stream:
    """The query over rows that are fed as files, one a batch."""

    def __init__(self, spark, folder, config=ANSWERING):
        self._spark, self._config = spark, config
        self._input, self._output, self._checkpoint = (str(folder / name) for name in ("in", "out", "checkpoint"))
        self._files = 0

    def feed(self, rows):
        """Write a file."""
        frame(self._spark, rows).coalesce(1).write.parquet(f"{self._input}/part-{self._files:03}")
        self._files += 1

    def run(self, quotas):
        """Run the query over what has come; answers of all runs, by partition and offset."""
        records = self._spark.readStream.schema(RECORD).option("maxFilesPerTrigger", 1).parquet(f"{self._input}/*")
        query = (
            enforce(records, FixedQuotas(quotas), self._config)
            .writeStream.format("parquet")
            .option("path", self._output)
            .option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return answers_by_source(self._answers())

    def written(self):
        """All answers, to the byte."""
        return sorted(map(tuple, self._answers()))

    def state(self):
        """The state store, as it can be read from outside: the value of each bucket."""
        rows = self._spark.read.format("statestore").load(self._checkpoint).collect()
        return {row.key.bucket: tuple(row.value.groupState) for row in rows}

    def _answers(self):
        return self._spark.read.schema(ANSWER).parquet(self._output).collect()


@pytest.fixture
def stream(spark, tmp_path):
    return Stream(spark, tmp_path)


def test_a_bucket_lives_through_batches_and_restarts_and_can_be_read(stream):
    """-60 after the first run; the second, a new query, finds the debt."""
    quotas = timeline((ALICE, 5.0, 0))
    stream.feed(kafka_rows([request_json(*[80] * 7)], timestamps=[1000]))
    stream.run(quotas)
    stream.feed(kafka_rows([request_json(1)], timestamps=[2000], first_offset=1))
    found = stream.run(quotas)

    assert found[0, 0][1]["tokens"] == -60
    assert (found[0, 1][1]["outcome"], found[0, 1][1]["throttle_time_ms"]) == ("REJECTED", 11_000)
    assert stream.state() == {'["alice",""]': (-60.0, 1000, 5.0, None, None, None, None)}


def fuzz_log(seed, count):
    """A log of valid and invalid records of one partition, whose time sometimes steps back."""
    rng = random.Random(seed)
    now, values, timestamps = 10_000, [], []
    for number in range(count):
        now += rng.choice([0, 0, 1, 50, 400, 3000, -200])
        good = request_json(
            *[rng.choice([0, 1, 3, 80, 700]) for _ in range(rng.randint(1, 4))],
            request_id=f"r{number}",
            timestamp=now,
            user=rng.choice(["alice", "bob", "", "é\u2028\U0001f600", 'x","y']),
            client_id=rng.choice(["", "app", "["]),
            api_version=rng.choice([PERMISSIVE, 6]),
            validate_only=rng.random() < 0.1,
            purgatory_ms=rng.choice([0, 100]),
        )
        bad = json.dumps({"timestamp": now, "request_id": number}).encode()
        broken = bytes(rng.randrange(256) for _ in range(5)).replace(b"\n", b"").replace(b"\r", b"")
        values.append(rng.choices([good, bad, broken, b"\xff" + good], [20, 1, 1, 1])[0])
        timestamps.append(now)
    return values, timestamps


def test_the_job_and_simulate_decide_the_same_bytes_equally(stream):
    """One log, cut at random into four batches for the job, and as lines of a file for `simulate`."""
    values, timestamps = fuzz_log(0, 300)
    quotas = timeline(
        (USER_DEFAULTS, 20.0, 0),
        (ALICE, 5.0, 50_000),
        (QuotaEntity("bob", "app"), 2.5, 60_000),
        (ALICE, None, 120_000),
        (USER_DEFAULTS, 3.0, 150_000),
    )
    cuts = [0, *sorted(random.Random(0).sample(range(1, 300), 3)), 300]
    for start, end in pairwise(cuts):
        stream.feed(kafka_rows(values[start:end], timestamps=timestamps[start:end], first_offset=start))
    found = stream.run(quotas)

    simulated = [json.loads(codec.encode(each)) for each in simulate(values, quotas, TokenBucket(WINDOW))]
    assert len(found) == len(simulated) == 300
    for offset, expected in enumerate(simulated):
        topic, actual = found[0, offset]
        assert topic == ("decisions" if "decision_id" in expected else "dead-letters")
        # A line without a time has none for `simulate`; the job has the record's.
        assert actual == expected | {"timestamp": timestamps[offset]}
