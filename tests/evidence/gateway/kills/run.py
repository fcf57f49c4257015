"""A gateway that is killed at random while clients change topics through it."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from quota.kafka.quotas.writer import write_record
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.settings import Settings
from tests.evidence.gateway.kills.clients import Client
from tests.evidence.gateway.kills.verdict import Report, check
from tests.support.gateway import Gateway, protocol, start_gateway

REPEATS_SECONDS = 600.0
"""`repeats.window_seconds`: how long the job remembers admitted requests."""

_RATE = 8.0
_CLIENT_SECONDS = 120


def prepared(settings: Settings) -> Settings:
    """Return the settings of a deployment with deduplication, with which its job must run."""
    repeats = settings.repeats.model_copy(update={"window_seconds": REPEATS_SECONDS})
    return settings.model_copy(update={"repeats": repeats})


@dataclass(frozen=True, slots=True)
class Plan:
    """The kills of the gateway, and the number of clients."""

    kills: int
    """The number of kills by SIGKILL, each followed by a new start."""
    clients: int = 6
    between: tuple[float, float] = (0.3, 3.0)
    """The shortest and the longest time from a start to its kill, s."""
    seed: int = 599
    """The seed of these times and of the clients' steps."""


def under_kills(settings: Settings, log: Path, plan: Plan, notify: Callable[[str], None] = lambda _: None) -> Report:
    """Kill and restart a gateway while clients change topics through it, and check the outcome."""
    write_record(settings, QuotaRecord(QuotaEntity(None), _RATE))
    chance = random.Random(plan.seed)
    gateway = start_gateway(settings, log)
    over = False
    crowd = [Client(number, gateway.port, protocol(), lambda: over, plan.seed) for number in range(plan.clients)]
    try:
        for each in crowd:
            each.start()
        for number in range(plan.kills):
            time.sleep(chance.uniform(*plan.between))
            gateway = _kill_and_start(settings, log, gateway)
            if (number + 1) % 10 == 0:
                notify(f"{number + 1} kills, {sum(each.tally.calls for each in crowd)} calls")
        over = True
        for each in crowd:
            each.join(_CLIENT_SECONDS)
        hanging = [each.name for each in crowd if each.is_alive()]
    finally:
        over = True
        gateway.process.terminate()
        gateway.process.wait(60)
    report = check(settings, plan.kills, [each.tally for each in crowd])
    report.wrong += [f"{name} is still waiting" for name in hanging]
    if "Traceback" in log.read_text(errors="replace"):
        report.wrong.append("the gateway has logged an unexpected error")
    return report


def _kill_and_start(settings: Settings, log: Path, gateway: Gateway) -> Gateway:
    gateway.process.kill()
    gateway.process.wait()
    return start_gateway(settings, log, port=gateway.port)
