"""The quota log as a gateway uses it: one call at a time, within a time limit, and open again after an error."""

import asyncio
import threading
from unittest.mock import Mock

import pytest

from quota.errors import ClusterError
from quota.kafka.quotas import writer
from quota.kafka.quotas.writer import LoggedRates, QuotaWriter
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Cluster, ClusterRecord, Quota, QuotaLogEntry, QuotaRecord
from quota.settings import Settings
from quota.timeline.change import QuotaChange
from quota.timeline.timeline import QuotaTimeline

pytestmark = pytest.mark.anyio

ALICE, BOB = QuotaEntity("alice"), QuotaEntity("bob")
SECONDS = 30


class FakeLog:
    """A log at time 10 with the quotas of alice and bob; `reads` raises or waits while it is read."""

    now = 10

    def __init__(self, reads):
        self._reads, self.closed = reads, False
        self.timeline = QuotaTimeline()
        self.timeline.add(QuotaChange(ALICE, Quota(5.0, 50.0, shadow=True, max_request_mutations=80), 1))
        self.timeline.add(QuotaChange(BOB, Quota(6.0), 1))
        self.timeline.add(QuotaChange(BOB, None, 2))
        self.timeline.add(QuotaChange(BOB, Quota(7.0), 11))

    def read_to_end(self):
        self._reads()

    def take_entries(self):
        return []

    def close(self):
        self.closed = True


@pytest.fixture
def opened(monkeypatch):
    """The logs that were opened, and what reading them does."""
    logs, reads = [], []

    def open_log(_quotas, *, with_entries):
        assert with_entries  # the writer looks for its records
        logs.append(FakeLog(lambda: [read() for read in reads]))
        return logs[-1]

    monkeypatch.setattr(writer, "QuotaLog", open_log)
    return logs, reads


async def test_the_rates_in_force_are_read_also_those_in_shadow(opened):
    """A removed one and one that is scheduled are not in force. The log is opened once."""
    logged = LoggedRates(Settings(), SECONDS)
    assert [await logged.read() for _ in range(2)] == [{ALICE: 5.0}] * 2
    logged.close()
    (log,) = opened[0]
    assert log.closed


@pytest.mark.usefixtures("opened")
async def test_a_change_has_its_author_and_keeps_the_other_configs(monkeypatch):
    """A rate without a quota sets one, and a removal removes all of it."""
    made = []

    def alter_quotas(writer, changes):
        timeline = writer.read().timeline
        made.extend(change(timeline.latest(entity, 10).quota) for entity, change in changes.items())
        made.append(changes[ALICE](None))

    monkeypatch.setattr(QuotaWriter, "alter_quotas", alter_quotas)
    logged = LoggedRates(Settings(), SECONDS)
    await logged.alter({ALICE: 8.0, BOB: None}, "ann", "why")
    logged.close()
    signed = {"altered_by": "ann", "comment": "why", "altered_configs": ["controller_mutation_rate"]}
    assert made == [
        QuotaRecord(ALICE, 8.0, 50.0, shadow=True, max_request_mutations=80, **signed),
        QuotaRecord(BOB, None, **signed),
        QuotaRecord(ALICE, 8.0, **signed),
    ]


@pytest.mark.parametrize(
    ("error", "said"),
    [(ClusterError("no leader"), "no leader"), (KeyError("secret"), "KeyError")],
    ids=["known", "bug"],
)
async def test_after_an_error_the_log_is_opened_again(opened, error, said, caplog):
    """The error is logged; the client gets no text of a bug."""
    logs, reads = opened
    logged = LoggedRates(Settings(), SECONDS)

    def fail():
        raise error

    reads.append(fail)
    with pytest.raises(ClusterError, match=f"^{said}$"):
        await logged.read()
    reads.clear()
    assert await logged.read() == {ALICE: 5.0}
    logged.close()
    assert [log.closed for log in logs] == [True, True]
    assert [message.startswith("a client cannot use the quota log") for message in caplog.messages] == [True]


async def test_a_writer_is_kept_until_it_fails(monkeypatch):
    """An idempotent producer takes half a second to start."""
    used = []

    def alter_quotas(writer, changes):
        used.append(writer)
        if BOB in changes:
            raise ClusterError("no leader")

    monkeypatch.setattr(QuotaWriter, "alter_quotas", alter_quotas)
    logged = LoggedRates(Settings(), SECONDS)
    await logged.alter({ALICE: 8.0}, "ann", "why")
    with pytest.raises(ClusterError):
        await logged.alter({BOB: 8.0}, "ann", "why")
    await logged.alter({ALICE: 8.0}, "ann", "why")
    logged.close()
    assert [writer is used[0] for writer in used] == [True, True, False]


async def test_a_call_ends_after_its_time_and_a_waiting_one_is_never_made(opened):
    """Meanwhile the event loop runs. The next call finds the log as it was left."""
    logs, reads = opened
    released, begun = threading.Event(), []
    reads += [lambda: begun.append(1), lambda: released.wait(SECONDS)]
    logged = LoggedRates(Settings(), 0.5)
    calls = [asyncio.create_task(logged.read()) for _ in range(2)]
    failed = await asyncio.gather(*calls, return_exceptions=True)
    assert [str(error) for error in failed] == ["it takes longer than 0.5 s"] * 2
    reads.pop()
    released.set()
    logged.close()
    assert (len(begun), len(logs)) == (1, 1)


@pytest.mark.parametrize(("topics", "hours", "is_written"), [("a", 23, False), ("a", 24, True), ("ab", 1, True)])
def test_metadata_that_have_not_changed_are_published_once_a_day(monkeypatch, topics, hours, is_written):
    """So their age tells whether anybody publishes them."""
    published = QuotaLogEntry(7, 0, ClusterRecord(Cluster({"a": [1]})))
    later = QuotaLogEntry(8, 1, QuotaRecord(ALICE, 5.0))
    log = Mock(entries=[published, later], now=hours * 3_600_000)
    monkeypatch.setattr(writer, "read_log", Mock(return_value=log))
    monkeypatch.setattr(writer, "write_record", Mock(return_value=9))
    cluster = Cluster({topic: [1] for topic in topics})
    assert writer.publish_cluster(Settings(), ClusterRecord(cluster)) == (9 if is_written else None)
