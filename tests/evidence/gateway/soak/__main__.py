"""Runs clients over TLS for two hours, while certificate, brokers and job change: part of `make nightly`."""

import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain, cycle
from pathlib import Path
from typing import Any

from confluent_kafka.admin import NewPartitions, NewTopic

from jobs.sandbox.broker import HOST
from jobs.services.session import deployment_session
from jobs.storage.run import Run
from quota.kafka.quotas.writer import write_record
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from tests.evidence.command import Notify, run
from tests.evidence.gateway.ground import Ground, on_ground, query_of
from tests.evidence.gateway.kills.verdict import REPEATS_SECONDS, check, remembering
from tests.evidence.gateway.soak.traffic import PREFIX, Traffic
from tests.evidence.machine import versions
from tests.support.waiting import until

_TOPIC = "records-of-the-soak"
_PARTITIONS = 6
"""The partitions of that topic; it gets as many more when a broker joins, which leads half of them."""
_RATE = 8.0
_FIRST_SECONDS = 120
_RECOVERED_SECONDS = 120
_MAX_GROWTH = 1.2
_LEAST_SAMPLES = 40
"""The samples of memory from which on their growth is judged."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of the experiment; times in seconds."""

    seconds: float
    between: float
    """From the end of one event to the next one."""
    visitors: int
    """Connections of clients that come and go."""


FULL = Size(7200, 120, 490)
SMOKE = Size(10, 1, 20)


def _play(where: Ground, options: Namespace, notify: Notify) -> dict[str, Any]:
    settings = remembering(where.deployment("soak"))
    with deployment_session(settings, "enforce", where.folder / "soak.log") as job:
        return soak(where, job, SMOKE if options.smoke else FULL, options.seed, notify)


def soak(where: Ground, job: Run, size: Size, seed: int, notify: Notify) -> dict[str, Any]:
    """Run clients through a gateway, with one event after the other, and return what happened and what is wrong."""
    settings = job.settings
    write_record(settings, QuotaRecord(QuotaEntity(None), _RATE))
    where.admin.create_topics([NewTopic(_TOPIC, _PARTITIONS)])[_TOPIC].result(_FIRST_SECONDS)
    events: Counter[str] = Counter()
    memory: list[int] = []
    expected_losses = 0
    with ExitStack() as stack:
        query = stack.enter_context(closing(_Query(job)))
        gateway = stack.enter_context(where.encrypting_gateway(settings, "soaked"))
        traffic = Traffic(gateway.port, _TOPIC, str(where.authority.path), seed)
        stack.enter_context(traffic.running(size.visitors))
        until(lambda: _steps(traffic), _FIRST_SECONDS)
        changes = _changes(where, query)
        ends_at = time.monotonic() + size.seconds
        for name in chain(changes, cycle([*changes][1:])):  # a broker is added once
            if time.monotonic() >= ends_at and events.total() >= len(changes):
                break
            lost, steps = traffic.lost, _steps(traffic)
            changes[name]()
            until(lambda before=steps: query.keep() and _steps(traffic) > before, _RECOVERED_SECONDS)
            if name == "restart_broker":
                until(lambda: _is_calm(traffic), _RECOVERED_SECONDS)
                expected_losses += traffic.lost - lost
            events[name] += 1
            pause_ends_at = time.monotonic() + size.between
            while time.monotonic() < pause_ends_at:
                memory.append(gateway.rss_bytes())
                time.sleep(min(size.between, 1.0))
            notify(f"{events.total()} events, {_steps(traffic)} changes, {memory[-1] / 1e6:.0f} MB")
    report = check(settings, [client.tally for client in traffic.changers], PREFIX)
    wrong = [*report.wrong]
    if traffic.lost != expected_losses:
        wrong.append(f"{traffic.lost - expected_losses} calls were lost while no broker was restarted")
    if traffic.undelivered or traffic.consumed < traffic.produced:
        wrong.append(f"{traffic.undelivered} records undelivered; {traffic.consumed} of {traffic.produced} consumed")
    growth = _growth(memory)
    if growth > _MAX_GROWTH:
        wrong.append(f"the gateway's memory has grown to {growth:.2f} of what it was")
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "seed": seed,
        "seconds": size.seconds,
        "repeats_window_s": REPEATS_SECONDS,
        "events": dict(events),
        "visits": traffic.visits,
        "records": traffic.produced,
        "steps": dict(report.steps),
        "decisions": report.decisions,
        "lost_with_the_broker": expected_losses,
        "paid_twice": dict(report.paid_twice),
        "memory_mb": max(memory) / 1e6,
        "memory_growth": growth,
        "versions": versions(),
        "wrong": wrong,
    }


class _Query:
    """The query of the job, which is started again if it has ended, as it may while the broker is down."""

    def __init__(self, job: Run) -> None:
        self._job = job
        self._stack = ExitStack()
        self._query = self._stack.enter_context(query_of(job))

    def keep(self) -> bool:
        """Start it again if it has ended, and return whether it runs."""
        if not self._query.isActive:
            self.restart()
        return self._query.isActive

    def restart(self) -> None:
        self.close()
        self._query = self._stack.enter_context(query_of(self._job))

    def close(self) -> None:
        self._stack.close()


def _changes(where: Ground, query: _Query) -> dict[str, Callable[[], None]]:
    """Return the events that take turns, by their names."""

    def restart_broker() -> None:
        where.broker.stop()
        where.broker.start()

    def add_broker() -> None:
        where.second.start()
        more = NewPartitions(_TOPIC, 2 * _PARTITIONS)
        until(lambda: len(where.admin.list_topics(timeout=_FIRST_SECONDS).brokers) > 1, _FIRST_SECONDS)
        where.admin.create_partitions([more])[_TOPIC].result(_FIRST_SECONDS)

    return {
        "add_broker": add_broker,
        "renew_certificate": lambda: where.authority.sign("soaked", HOST),
        "restart_broker": restart_broker,
        "restart_job": query.restart,
    }


def _steps(traffic: Traffic) -> int:
    return sum(client.tally.steps.total() for client in traffic.changers)


def _is_calm(traffic: Traffic) -> bool:
    """Return whether a second passes without a lost call."""
    lost, visits = traffic.lost, traffic.visits
    time.sleep(1)
    return traffic.lost == lost and traffic.visits > visits


def _growth(memory: list[int]) -> float:
    """Return the largest memory of the last quarter, of that in the second quarter; 1 for a few samples."""
    quarter = len(memory) // 4
    return max(memory[-quarter:]) / max(memory[quarter : 2 * quarter]) if len(memory) >= _LEAST_SAMPLES else 1.0


PAGE = Path(__file__).with_name("page.md.in")

if __name__ == "__main__":
    run("gateway-soak", on_ground(_play), PAGE, seed=int(time.time()))
