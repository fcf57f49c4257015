"""Runs KIP-599's worked example through Kafka, Spark and Delta, prints it step by step, and checks it."""

import threading
import time
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql.streaming.query import StreamingQuery
from rich import box
from rich.console import Console
from rich.table import Table

from jobs.audit.decisions import to_decisions
from jobs.audit.query import start_audit
from jobs.audit.reader import open_table
from jobs.audit.tables import DEAD_LETTERS, DECISIONS
from jobs.enforce.query import start_enforce
from jobs.sandbox.broker import embedded_broker, with_plaintext_cluster
from jobs.services.spark import claimed_deployment
from jobs.spark.queries import await_queries, check_queries, stop_after_batch
from jobs.storage.files import DeploymentSession
from quota.admission.order import in_order, position_of
from quota.errors import MutationQuotaError
from quota.kafka.quotas.writer import write_record
from quota.kafka.requests_and_answers import AnswerReader, RequestWriter
from quota.kafka.timing import Deadline
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision, Outcome
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.records.request import Mode, MutationRequest, Operation, TopicMutation
from quota.settings import Settings

_ANSWER_SECONDS = 90.0
_LINGER_MS = 200
_RATE = 5.0
_TOPICS, _PARTITIONS = 7, 80
_NEW_API, _OLD_API = 7, 5


def run_demo(settings: Settings) -> None:
    """Run the example in a temporary folder."""
    console = Console()
    console.soft_wrap = not console.is_terminal  # a file has whole lines, and a terminal whole words
    with TemporaryDirectory(prefix="mutation-quota-") as folder:
        storage = settings.storage.model_copy(update={"root": folder})
        quota = settings.quota.model_copy(update={"window_num": 100, "window_size_seconds": 1})
        topics = settings.topics.model_copy(update={"identity": "payload"})  # the demo acts as a gateway
        settings = settings.model_copy(update={"storage": storage, "quota": quota, "topics": topics})
        console.print("KIP-599's worked example: Q = 5 mutations/s, S = 100, W = 1 s, B = 500", style="bold")
        with console.status("starting a broker"), embedded_broker(settings, port=0) as broker:
            settings = with_plaintext_cluster(settings, broker.address)
            console.print(f"a real broker is up at {broker.address}")
            with claimed_deployment(settings, "demo", Path(folder) / "spark.log") as session:
                deviations = _Example(session, console).run()
    if deviations:
        raise MutationQuotaError(f"results differ from KIP-599: {'; '.join(deviations)}")
    console.print("all results match KIP-599", style="bold green")


class _Example:
    def __init__(self, session: DeploymentSession, console: Console) -> None:
        self._session = session
        self._settings = session.settings
        self._console = console
        self._deviations: list[str] = []
        self._started_at = 0

    def run(self) -> list[str]:
        """Run the example and return the deviations from KIP-599."""
        for user in ("alice", "legacy"):
            write_record(self._settings, QuotaRecord(QuotaEntity(user), _RATE, comment="KIP-599's example"))
        writer = RequestWriter(self._settings, _LINGER_MS)
        reader = AnswerReader(self._settings, since=0)
        query = start_enforce(self._session)
        try:
            decisions = self._decide(writer, reader, query)
        finally:
            reader.close()
            stop_after_batch([query])
        self._check_tables(decisions)
        return self._deviations

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
        answers = self._receive(reader, query, 5, "deciding: the first batch warms Spark up")
        decisions = {answer.request_id: answer for answer in answers if isinstance(answer, Decision)}
        letters = [answer for answer in answers if isinstance(answer, DeadLetter)]

        self._started_at = min(decision.timestamp for decision in decisions.values())
        self._check(decisions["seven"], "seven topics of 80 partitions at once", Outcome.ADMITTED, -60.0, 0)
        self._check(decisions["next"], "next topic", Outcome.REJECTED, -60.0, 12_000)
        self._check(decisions["old"], "old client's seven topics", Outcome.ADMITTED, -60.0, 12_000)
        self._check(decisions["old again"], "old client's next topic", Outcome.ADMITTED, -140.0, 28_000)
        self._expect("the old client's mode", decisions["old"].mode, Mode.PERMISSIVE)
        self._expect("dead letters", len(letters), 1)
        self._console.print(
            f"  an invalid record is a dead letter: {letters[0].error}" if letters else "  no dead letter"
        )

        self._wait_until(decisions["next"].retry_at)
        writer.send(_request("waited", "alice", _NEW_API, 1))
        (waited,) = self._receive(reader, query, 1, "deciding")
        if isinstance(waited, Decision):
            decisions["waited"] = waited
            refilled = (waited.timestamp - decisions["next"].retry_at) / 1000 * _RATE  # K was zero at retry_at
            self._check(
                waited, "the rejected topic after its throttle time", Outcome.ADMITTED, refilled - _PARTITIONS, 0
            )
        self._expect("decisions received", len(decisions), 5)
        return decisions

    def _check_tables(self, decisions: dict[str, Decision]) -> None:
        """Audit, and compare the Delta tables with the decisions received."""
        with self._console.status("auditing into Delta"):
            query = start_audit(self._session, once=True)
            await_queries(threading.Event(), [query])
            rows = open_table(self._settings, DECISIONS).dataset().to_table()
            stored = in_order(to_decisions(rows), position_of)
            dead = open_table(self._settings, DEAD_LETTERS).dataset().count_rows()
        shown = Table("at s", "request", "user", "mode", "outcome", "K", "throttle ms", box=box.SIMPLE_HEAD)
        for decision in stored:
            seconds = (decision.timestamp - self._started_at) / 1000
            texts = (decision.request_id, decision.user, decision.mode.value, decision.outcome.value)
            shown.add_row(f"{seconds:.3f}", *texts, f"{decision.tokens:.2f}", f"{decision.throttle_time_ms:,}")
        self._console.print("the Delta table of decisions:")
        self._console.print(shown)
        self._expect("decisions in Delta", _results(stored), _results(decisions.values()))
        self._expect("rows of decisions in Delta", len(stored), len(decisions))
        self._expect("dead letters in Delta", dead, 1)

    def _receive(
        self, reader: AnswerReader, query: StreamingQuery, count: int, doing: str
    ) -> list[Decision | DeadLetter]:
        answers: list[Decision | DeadLetter] = []
        deadline = Deadline(_ANSWER_SECONDS)
        with self._console.status(doing):
            while len(answers) < count:
                check_queries([query])
                answers.extend(received.answer for received in reader.read())
                if deadline.has_passed:
                    raise MutationQuotaError(f"{len(answers)} answers instead of {count} in {_ANSWER_SECONDS:.0f} s")
        return answers

    def _wait_until(self, moment: int) -> None:
        with self._console.status("") as status:
            while (left := moment - time.time() * 1000) > 0:
                status.update(f"waiting for the throttle time: {left / 1000:.0f} s")
                time.sleep(min(left / 1000, 0.2))

    def _check(self, decision: Decision, what: str, outcome: Outcome, tokens: float, throttle_ms: int) -> None:
        seconds = (decision.timestamp - self._started_at) / 1000
        throttled = f", throttled {decision.throttle_time_ms:,} ms" if decision.throttle_time_ms else ""
        self._console.print(f"  {seconds:7.3f} s  {what}: {decision.outcome.value}, K = {decision.tokens:g}{throttled}")
        actual = (decision.outcome, round(decision.tokens or 0.0, 6), decision.throttle_time_ms)
        self._expect(what, actual, (outcome, round(tokens, 6), throttle_ms))

    def _expect(self, what: str, actual: object, expected: object) -> None:
        if actual != expected:
            self._deviations.append(f"{what}: {actual}, expected {expected}")


def _results(decisions: Iterable[Decision]) -> dict[str, tuple[str, Outcome, float | None, int]]:
    return {
        decision.request_id: (decision.decision_id, decision.outcome, decision.tokens, decision.throttle_time_ms)
        for decision in decisions
    }


def _request(name: str, user: str, api_version: int, topics: int) -> MutationRequest:
    return MutationRequest(
        request_id=name,
        user=user,
        operation=Operation.CREATE_TOPICS,
        api_version=api_version,
        apply=False,
        topics=[TopicMutation(f"{user}-{number}", _PARTITIONS) for number in range(topics)],
    )
