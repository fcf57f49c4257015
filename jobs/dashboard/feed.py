"""Reads the data of the page from the topics; retries while Kafka cannot be reached."""

import logging
import threading
import time
from contextlib import closing
from pathlib import Path

import msgspec

from jobs.background import background
from jobs.dashboard.decisions import LAST_HOUR
from jobs.dashboard.state import PageState
from jobs.metrics.endpoint import STARTING
from jobs.query_names import ENFORCE
from quota.errors import ClusterError, MutationQuotaError
from quota.kafka.quotas.log import KafkaQuotas, QuotaLog
from quota.kafka.requests_and_answers import AnswerReader
from quota.kafka.timing import Every, now_ms
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.settings import Settings
from quota.text import format_time

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_REFRESH_SECONDS = 0.5
_RETRY_SECONDS = 1.0
_CHECK_SECONDS = 5.0
"""The interval of checks that the topics are still the same, and of looks at the lease [s]."""
_JOIN_SECONDS = 1.0


class Contact(msgspec.Struct, frozen=True):
    """Whether Kafka responds."""

    state: str
    """`starting`, `live` or `unreachable`."""
    message: str = ""
    """The reason why it cannot be reached."""
    at: int = 0
    """The time of its last response [epoch ms]; 0 for never."""


class Feed:
    """Follows the decisions, the dead letters and the quota log of a deployment, on a separate thread."""

    def __init__(self, settings: Settings) -> None:
        """Start without data; `follow` connects to Kafka."""
        self._settings = settings
        self.state = PageState(settings, now_ms())
        """The data that was read. It is replaced after Kafka could not be reached."""
        self.contact = Contact("starting")
        self.active = ""
        """The process that decides, and since when; empty if there is none, or if the lease cannot be read."""
        self.looped_at = time.monotonic()
        """The time of the thread's last progress on the monotonic clock [s]."""
        self._position = -1

    def follow(self, stop: threading.Event) -> None:
        """Read until `stop` is set."""
        with background(self._follow_lease, "dashboard-lease", _JOIN_SECONDS):  # a storage root may hang
            while not stop.is_set():
                self.looped_at = time.monotonic()
                try:
                    self._follow_until_failure(stop)
                except Exception as error:  # noqa: BLE001 such as a certificate that is being replaced
                    is_ours = isinstance(error, MutationQuotaError)
                    message = str(error) if is_ours else f"{type(error).__name__}: {error}"
                    if self.contact.message != message:
                        level = logging.DEBUG if isinstance(error, ClusterError) else logging.WARNING
                        _log.log(level, "the dashboard cannot read the topics: %s: retrying", message)
                    self.contact = msgspec.structs.replace(self.contact, state="unreachable", message=message)
                    stop.wait(_RETRY_SECONDS)

    def _follow_lease(self, stop: threading.Event) -> None:
        """Look who holds the lease (`jobs.storage.holder.Holder`), and whether its file still changes."""
        folder, read, changed_at = Path(self._settings.storage.url, "leases", ENFORCE), b"", 0.0
        while not stop.wait(_CHECK_SECONDS):
            try:
                before, read = read, max(folder.glob("[0-9]*"), key=lambda file: int(file.name)).read_bytes()
                changed_at = changed_at if read == before else time.monotonic()
                holder = msgspec.json.decode(read)
                is_active = not holder["ended"] and time.monotonic() - changed_at < holder["lease_seconds"]
                process = f"process {holder['program']['pid']} on {holder['host']}"
                self.active = f"{process}, since {format_time(holder['started_at'])}" if is_active else ""
            except (OSError, ValueError, TypeError, LookupError, msgspec.MsgspecError):  # there is none, or not here
                self.active = ""

    def missing(self) -> str:
        """Return why the page is not up to date; empty if it is. Probes need no token, so there is no address in it."""
        reasons = {"live": "", "starting": STARTING}
        return reasons.get(self.contact.state, "Kafka cannot be reached; the page shows the reason")

    def _follow_until_failure(self, stop: threading.Event) -> None:
        """Read the last hour into a new state, then follow the topics; the old state is shown meanwhile.

        Returns if a topic was recreated, because it has different records at the same offsets.
        """
        settings = self._settings
        names = [settings.topics.decisions, settings.topics.dead_letters, settings.topics.quotas]
        topics = TopicAdmin(settings.kafka.connection, settings.kafka.timeout_seconds)
        ids = topics.ids(names)
        now = now_ms()
        quotas = KafkaQuotas.from_settings(settings, settings.kafka.timeout_seconds)
        with (
            closing(AnswerReader(settings, since=now - LAST_HOUR.kept)) as reader,
            closing(QuotaLog(quotas, with_entries=True)) as log,
        ):
            self._position = -1
            state = PageState(settings, now)
            self._refresh(state, log)
            self.state = state
            due, check = Every(_REFRESH_SECONDS), Every(_CHECK_SECONDS, at_once=False)
            while not stop.is_set():
                self.looped_at = time.monotonic()
                if check.is_due() and topics.ids(names) != ids:
                    _log.warning("one of the topics %s was recreated: the dashboard starts again", ", ".join(names))
                    return
                for received in reader.read(_POLL_SECONDS):
                    state.record(received.answer, received.at)
                if due.is_due():
                    self._refresh(state, log)

    def _refresh(self, state: PageState, log: QuotaLog) -> None:
        """Read the quota log to its end, which also shows that Kafka responds, and update the state."""
        log.read_to_end()
        changed = log.position != self._position
        if changed:
            state.add_changes(log.take_entries())
            self._position = log.position
        state.refresh(log.now, log.quotas, changed=changed)
        self.contact = Contact("live", at=now_ms())
