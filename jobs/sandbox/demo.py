"""KIP-599's worked example through Kafka, Spark and Delta, told as it happens and checked."""

import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from rich import box
from rich.console import Console
from rich.table import Table

from jobs.audit.query import start_audit
from jobs.enforce.query import start_enforce
from jobs.sandbox.broker import at, embedded_broker
from jobs.services.prepared import prepared_session
from jobs.spark.queries import check_queries, run_until, stop_after_batch
from quota.errors import MutationQuotaError
from quota.kafka.quota_writer import write_record
from quota.kafka.requests import AnswerReader, RequestWriter
from quota.records.decision import DeadLetter, Decision, Outcome
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.records.request import Mode, MutationRequest, Operation, TopicMutation
from quota.records.result import MutationResult
from quota.settings.model import Settings
from quota.settings.storage import table_path

_WAIT_SECONDS = 90.0
_TOGETHER_MS = 200
_RATE = 5.0
_TOPICS, _PARTITIONS = 7, 80
_NEW_API, _OLD_API = 7, 5


def run_demo(settings: Settings) -> None:
    """Run the example in a folder of its own, which is removed afterwards.

    Raises:
        MutationQuotaError: something did not come out as KIP-599 says.
    """
    console = Console(soft_wrap=True)
    with TemporaryDirectory(prefix="mutation-quota-") as folder:
        storage = settings.storage.model_copy(update={"root": folder})
        quota = settings.quota.model_copy(update={"window_num": 100, "window_size_seconds": 1})
        topics = settings.topics.model_copy(update={"identity": "payload"})  # it plays the gateway
        settings = settings.model_copy(update={"storage": storage, "quota": quota, "topics": topics})
        console.print("KIP-599's worked example: Q = 5 mutations/s, S = 100, W = 1 s, B = 500", style="bold")
        with console.status("starting a broker"), embedded_broker(settings, port=0) as broker:
            settings = at(settings, broker.address)
            console.print(f"a real broker is up at {broker.address}")
            with prepared_session(settings, "demo", Path(folder) / "spark.log") as spark:
                wrong = _Example(spark, settings, console).play()
    if wrong:
        raise MutationQuotaError(f"not as KIP-599 says: {'; '.join(wrong)}")
    console.print("all of it as KIP-599 says", style="bold green")


class _Example:
    def __init__(self, spark: SparkSession, settings: Settings, console: Console) -> None:
        self._spark = spark
        self._settings = settings
        self._console = console
        self._wrong: list[str] = []
        self._began = 0

    def play(self) -> list[str]:
        """Play the example; what did not come out as it should."""
        for user in ("alice", "legacy"):
            write_record(self._settings, QuotaRecord(QuotaEntity(user), _RATE, comment="KIP-599's example"))
        writer = RequestWriter(self._settings, _TOGETHER_MS)
        reader = AnswerReader(self._settings, from_beginning=True)
        query = start_enforce(self._spark, self._settings)
        try:
            heard = self._decide(writer, reader, query)
        finally:
            reader.close()
            stop_after_batch([query])
        self._keep(heard)
        return self._wrong

    def _decide(self, writer: RequestWriter, reader: AnswerReader, query: StreamingQuery) -> dict[str, Decision]:
        writer.send(
            _request("seven", "alice", _NEW_API, _TOPICS),
            _request("next", "alice", _NEW_API, 1),
            _request("old", "legacy", _OLD_API, _TOPICS),
            _request("old again", "legacy", _OLD_API, 1),
        )
        writer.send_bytes(
            self._settings.topics.requests,
            b'{"request_id": "bad", "operation": "TRUNCATE_TOPICS"}',
            b"mallory",
        )
        answers = self._hear(reader, query, 5, "deciding: the first batch warms Spark up")
        heard = {each.request_id: each for each in answers if isinstance(each, Decision)}
        letters = [each for each in answers if isinstance(each, DeadLetter)]

        self._began = min(each.timestamp for each in heard.values())
        self._tell(heard["seven"], "seven topics of 80 partitions at once", Outcome.ADMITTED, -60.0, 0)
        self._tell(heard["next"], "one more topic, in the same millisecond", Outcome.REJECTED, -60.0, 12_000)
        self._tell(heard["old"], "an old client's seven topics", Outcome.ADMITTED, -60.0, 12_000)
        self._tell(heard["old again"], "and one more: throttled, never refused", Outcome.ADMITTED, -140.0, 28_000)
        self._expect("the old client's mode", heard["old"].mode, Mode.PERMISSIVE)
        self._expect("dead letters", len(letters), 1)
        self._console.print(f"  a bad record is a dead letter: {letters[0].error}" if letters else "  no dead letter")

        self._wait_until(heard["next"].retry_at)
        writer.send(_request("waited", "alice", _NEW_API, 1))
        (waited,) = self._hear(reader, query, 1, "deciding")
        if isinstance(waited, Decision):
            heard["waited"] = waited
            refilled = (waited.timestamp - heard["next"].retry_at) / 1000 * _RATE  # since K was back at zero
            self._tell(waited, "the refused topic again, after the wait", Outcome.ADMITTED, refilled - _PARTITIONS, 0)
        self._expect("decisions heard", len(heard), 5)
        return heard

    def _keep(self, heard: dict[str, Decision]) -> None:
        """Audit, and compare what Delta holds with what was heard."""
        with self._console.status("auditing into Delta"):
            query = start_audit(self._spark, self._settings, once=True)
            run_until(threading.Event(), [query])
            decisions = self._spark.read.format("delta").load(table_path(self._settings, "decisions"))
            rows = decisions.orderBy("timestamp", F.col("source.offset")).collect()
            dead = self._spark.read.format("delta").load(table_path(self._settings, "dead_letters")).count()
        table = Table("at s", "request", "user", "mode", "outcome", "K", "throttle ms", box=box.SIMPLE_HEAD)
        for row in rows:
            seconds = (row.retry_at.timestamp() * 1000 - row.throttle_time_ms - self._began) / 1000
            numbers = (f"{row.tokens:.2f}", f"{row.throttle_time_ms:,}")
            table.add_row(f"{seconds:.3f}", row.request_id, row.user, row["mode"], row.outcome, *numbers)
        self._console.print("what the Delta table of decisions holds:")
        self._console.print(table)
        kept = {row.request_id: (row.decision_id, row.outcome, row.tokens, row.throttle_time_ms) for row in rows}
        told = {
            each.request_id: (each.decision_id, each.outcome.value, each.tokens, each.throttle_time_ms)
            for each in heard.values()
        }
        self._expect("decisions in Delta", kept, told)
        self._expect("rows of decisions in Delta", len(rows), len(heard))
        self._expect("dead letters in Delta", dead, 1)

    def _hear(self, reader: AnswerReader, query: StreamingQuery, count: int, doing: str) -> list[Decision | DeadLetter]:
        answers: list[Decision | DeadLetter] = []
        deadline = time.monotonic() + _WAIT_SECONDS
        with self._console.status(doing):
            while len(answers) < count:
                check_queries([query])
                answers.extend(each.answer for each in reader.read() if not isinstance(each.answer, MutationResult))
                if time.monotonic() > deadline:
                    raise MutationQuotaError(f"{len(answers)} answers instead of {count} in {_WAIT_SECONDS:.0f} s")
        return answers

    def _wait_until(self, moment: int) -> None:
        with self._console.status("") as status:
            while (left := moment - time.time() * 1000) > 0:
                status.update(f"waiting the told time: {left / 1000:.0f} s")
                time.sleep(min(left / 1000, 0.2))

    def _tell(self, decision: Decision, what: str, outcome: Outcome, tokens: float, throttle_ms: int) -> None:
        seconds = (decision.timestamp - self._began) / 1000
        told = f", throttled {decision.throttle_time_ms:,} ms" if decision.throttle_time_ms else ""
        self._console.print(f"  {seconds:7.3f} s  {what}: {decision.outcome.value}, K = {decision.tokens:g}{told}")
        actual = (decision.outcome, round(decision.tokens or 0.0, 6), decision.throttle_time_ms)
        self._expect(what, actual, (outcome, round(tokens, 6), throttle_ms))

    def _expect(self, what: str, actual: object, expected: object) -> None:
        if actual != expected:
            self._wrong.append(f"{what}: {actual}, expected {expected}")


def _request(name: str, user: str, api_version: int, topics: int) -> MutationRequest:
    return MutationRequest(
        request_id=name,
        user=user,
        operation=Operation.CREATE_TOPICS,
        api_version=api_version,
        apply=False,
        topics=[TopicMutation(f"{user}-{number}", _PARTITIONS) for number in range(topics)],
    )
