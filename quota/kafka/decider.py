"""Mutation requests to the enforcing job on behalf of many clients, and its answers."""

import logging
import threading
from collections.abc import Callable
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message

from quota.kafka.requests import UNDELIVERED, AnswerReader, ReceivedAnswer, RequestWriter
from quota.records.request import MutationRequest
from quota.settings import Settings

_log = logging.getLogger(__name__)

_LINGER_MS = 1
_POLL_SECONDS = 0.05
_RETRY_SECONDS = 0.5
_JOIN_SECONDS = 5.0

OnAnswer = Callable[[ReceivedAnswer], object]
OnFailure = Callable[[str, str], object]
"""Takes the id of a request that gets no decision, and the reason if the request is invalid, else an empty string."""


class Decider:
    """Writes requests, and reads the answers that arrive after its creation."""

    def __init__(self, settings: Settings, only: str) -> None:
        """Connect.

        Args:
            settings: the settings.
            only: the common prefix of the ids of all requests to be sent.

        Raises:
            ClusterError: the cluster does not answer, or lacks the topics.
        """
        self._writer = RequestWriter(settings, linger_ms=_LINGER_MS)
        self._reader = AnswerReader(settings, only=only)
        self._on_failure: OnFailure = lambda *_: None
        self._closed = threading.Event()
        self._logged: set[str] = set()
        self._thread: threading.Thread | None = None

    def start(self, on_answer: OnAnswer, on_failure: OnFailure) -> None:
        """Start reading. Both functions are called on the decider's own thread."""
        self._on_failure = on_failure
        self._thread = threading.Thread(
            target=self._listen, args=(on_answer,), name="mutation-quota-decisions", daemon=True
        )
        self._thread.start()

    def ask(self, request: MutationRequest) -> None:
        """Enqueue a request, whose answer is passed to the function given to `start`.

        Raises:
            BadInput: users have topics of their own, and this user's name cannot be part of a topic name.
        """
        try:
            self._writer.send(request, on_delivery=partial(self._on_delivery, request.request_id))
        except BufferError:
            self._log_once("the producer's queue is full: is the cluster reachable?")
        except KafkaException as error:
            self._fail(request.request_id, error.args[0])

    def close(self) -> None:
        """End the thread and the connections."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)

    def _listen(self, on_answer: OnAnswer) -> None:
        while not self._closed.is_set():
            try:
                self._writer.poll()
                for received in self._reader.read(_POLL_SECONDS):
                    _pass_on(received, on_answer)
            except Exception:  # noqa: BLE001 without this thread nobody would be answered
                _log.exception("cannot read decisions, retrying")
                self._closed.wait(_RETRY_SECONDS)
        self._reader.close()

    def _on_delivery(self, request_id: str, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._fail(request_id, error)

    def _fail(self, request_id: str, error: KafkaError) -> None:
        """Report that a request cannot be written; it is invalid if it is too large."""
        reason = f"the request cannot be written to its topic: {error.str()}"
        self._log_once(reason)
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            self._on_failure(request_id, reason)
        elif error.code() not in UNDELIVERED:
            self._on_failure(request_id, "")

    def _log_once(self, message: str) -> None:
        if message not in self._logged:
            self._logged.add(message)
            _log.warning("%s", message)


def _pass_on(received: ReceivedAnswer, on_answer: OnAnswer) -> None:
    try:
        on_answer(received)
    except Exception:  # noqa: BLE001 the other answers of the batch have their own receivers
        _log.exception("cannot process an answer")
