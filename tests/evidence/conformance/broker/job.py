"""The project's job on the same broker."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobs.enforce.query import start_enforce
from jobs.spark.queries import check_queries, stop_after_batch
from jobs.storage.run import Run
from quota.errors import ClusterError
from quota.kafka.quotas.writer import write_record
from quota.kafka.requests import AnswerReader, RequestWriter
from quota.kafka.topics.preparation import prepare_topics
from quota.records.decision import Decision
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.records.request import STRICT_SINCE, Mode, MutationRequest, Operation, TopicMutation
from quota.settings import Settings
from tests.evidence.conformance.broker.admin import Topic

_SECONDS = 60.0


class DecidingJob:
    """The enforcing query, with a writer of requests and a reader of answers."""

    def __init__(self, settings: Settings, query: StreamingQuery) -> None:
        self._settings = settings
        self._query = query
        self._writer = RequestWriter(settings)
        self._reader = AnswerReader(settings, from_beginning=True)
        self._decisions: dict[str, Decision] = {}
        self._sent = 0

    def set_quota(self, client_id: str, rate: float | None) -> int:
        """Set a client's rate (mutations/s), or remove it; return the time at which it takes effect (epoch ms)."""
        return write_record(self._settings, QuotaRecord(QuotaEntity(client_id=client_id), rate))

    def send(
        self, client_id: str, mode: Mode, operation: Operation, topics: Sequence[Topic], *, validate_only: bool = False
    ) -> str:
        """Send a request, and return its id."""
        since = STRICT_SINCE[operation]
        self._sent += 1
        request = MutationRequest(
            request_id=f"request-{self._sent}",
            operation=operation,
            api_version=since if mode is Mode.STRICT else since - 1,
            topics=[TopicMutation(topic.name, topic.partitions) for topic in topics],
            client_id=client_id,
            validate_only=validate_only,
            apply=False,
        )
        self._writer.send(request)
        self._writer.flush(_SECONDS)
        return request.request_id

    def decision(self, request_id: str) -> Decision:
        """Wait for the decision on a request."""
        deadline = time.monotonic() + _SECONDS
        while request_id not in self._decisions:
            check_queries([self._query])
            self._decisions |= {received.answer.request_id: received.answer for received in self._reader.read()}
            if time.monotonic() > deadline:
                raise ClusterError(f"no decision in {_SECONDS:.0f} s")
        return self._decisions[request_id]

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()


@contextmanager
def deciding_job(spark: SparkSession, settings: Settings) -> Iterator[DecidingJob]:
    """Run the job inside the block, warmed up."""
    prepare_topics(settings)
    query = start_enforce(Run.on(spark, settings))
    job = DecidingJob(settings, query)
    try:
        job.decision(job.send("warm-up", Mode.STRICT, Operation.CREATE_TOPICS, [Topic("warm-up", 1)]))
        yield job
    finally:
        job.close()
        stop_after_batch([query])
