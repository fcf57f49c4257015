"""Compares unmodified clients at the gateway with the same clients at a broker that enforces the quota itself."""

from argparse import Namespace
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from quota.settings import Settings
from tests.evidence.command import Notify, run
from tests.evidence.gateway.conformance.comparison import compare, results
from tests.evidence.gateway.conformance.executables import (
    ADMIN_CLIENT,
    CONNECT_WORKER,
    INSTALLED,
    STREAMS,
    compiled,
    played_in_java,
    streams_jars,
)
from tests.evidence.gateway.conformance.hand_made import HAND_MADE
from tests.evidence.gateway.conformance.librdkafka import LIBRDKAFKA
from tests.evidence.gateway.conformance.overload import measure_beside_debt, measure_reconnecting
from tests.evidence.gateway.conformance.program import Observation, Observations, Program, Unavailable
from tests.evidence.gateway.conformance.sides import USERS, Side, Sides, conformance_settings, sides
from tests.evidence.gateway.ground import Ground, enforcing, on_ground
from tests.support.gateway import protocol
from tests.support.waiting import until

PAGE = Path(__file__).with_name("page.md.in")
OFFLINE = (ADMIN_CLIENT, HAND_MADE, LIBRDKAFKA, STREAMS, CONNECT_WORKER)
"""The programs that need nothing but what is installed."""
PROGRAMS = (*OFFLINE, *INSTALLED)
SMOKE_SLOW = 1.5
"""Factor of the time tolerances for a busy machine."""

SMOKE_SECONDS = 0.5
_LOAD_SECONDS = 10.0
"""How long an honest client is measured beside each load on each side."""
_ANEW_SECONDS = 30.0
"""How long clients that connect for each request are measured."""

_ALL = Program("all programs", users=0)
_SETTLE_SECONDS = 20
_SECONDS = 30


def _play(where: Ground, options: Namespace, notify: Notify) -> dict[str, Any]:
    settings = conformance_settings(where)
    with enforcing(settings) as query, sides(where, settings, query) as pair:
        outcome = play_all(pair, PROGRAMS, settings, notify, SMOKE_SLOW if options.smoke else 1.0)
        notify("measuring an honest client beside one in debt")
        outcome["beside_debt"] = measure_beside_debt(pair, SMOKE_SECONDS if options.smoke else _LOAD_SECONDS)
        notify("measuring clients that connect for each request")
        outcome["reconnecting"] = measure_reconnecting(pair, SMOKE_SECONDS if options.smoke else _ANEW_SECONDS)
    if not options.smoke:
        outcome["wrong"] += [f"{name}: {why}" for name, why in outcome["missing"].items()]
    return outcome


def play_all(
    pair: Sides, programs: Sequence[Program], settings: Settings, notify: Notify, slow: float
) -> dict[str, Any]:
    """Play programs at once, each on both sides, and return the results; those in Java share a JVM.

    `slow` is a factor for the tolerances of time.

    Raises:
        MutationQuotaError: A program failed, or the job or the gateway did.
    """
    missing = {STREAMS.name: "kafka-streams is not installed; `make clients` does it"} if not streams_jars() else {}
    playing = [program for program in programs if program.name not in missing]
    pair.create_topics({name: count for program in playing for name, count in program.topics.items()})
    firsts = {
        program.name: sum(earlier.users for earlier in playing[:number]) for number, program in enumerate(playing)
    }
    java = compiled(pair.ground)
    notify(f"playing {', '.join(firsts)}")
    observations: dict[str, Observations] = {}
    with ThreadPoolExecutor(len(playing) + 1) as pool:
        mains = {program.main: firsts[program.name] for program in playing if program.main}
        in_java = pool.submit(played_in_java, pair, java, mains)
        others = {
            program.name: pool.submit(program.play, pair, firsts[program.name]) for program in playing if program.play
        }
        for name, future in others.items():
            try:
                observations[name] = future.result()
            except Unavailable as error:
                missing[name] = str(error)
        observations |= {program.name: in_java.result()[program.main] for program in playing if program.main}
    pair.check()
    played = [program for program in playing if program.name in observations]
    rows = [(program, list(compare(program, *observations[program.name], slow))) for program in played]
    notify("comparing the topics")
    rows.append((_ALL, list(compare(_ALL, *_topics_at_the_end(pair, played)))))
    return results(rows, missing, _decisions(pair, settings), protocol().version)


def _topics_at_the_end(pair: Sides, programs: Sequence[Program]) -> Observations:
    """Return the topics of both sides; for a while they may differ, because metadata arrives late."""
    listed = {name for program in programs for name in program.differing_topics}

    def topics(side: Side) -> dict[str, int]:
        return {name: count for name, count in pair.topics_of(side).items() if name not in listed}

    with suppress(AssertionError):  # the comparison reports it
        until(lambda: topics(pair.direct) == topics(pair.gateway), _SETTLE_SECONDS)
    direct, gateway = ([_listed(topics(side))] for side in pair.both)
    return direct, gateway


def _listed(topics: dict[str, int]) -> Observation:
    named = ", ".join(f"{name} {count}" for name, count in topics.items())
    return Observation("the end", "topics and their partitions", f"{len(topics)} topics", 0.0, 0.0, detail=named)


def _decisions(pair: Sides, settings: Settings) -> int:
    """Return the number of decisions that the job has made."""
    topic = settings.topics.decisions
    partitions = pair.admin.list_topics(topic, _SECONDS).topics[topic].partitions
    ends = pair.admin.list_offsets({TopicPartition(topic, number): OffsetSpec.latest() for number in partitions})
    return sum(future.result(_SECONDS).offset for future in ends.values())


if __name__ == "__main__":
    run("gateway-conformance", on_ground(_play, USERS), PAGE)
