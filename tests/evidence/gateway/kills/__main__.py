"""Kills a gateway under load many times, with the complete job: `make gateway-kills`."""

import argparse
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from quota.errors import MutationQuotaError
from quota.kafka.quotas.writer import write_record
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.records.request import Operation
from quota.settings import Settings
from tests.evidence.gateway.ground import Ground, base_settings, enforcing, ground
from tests.evidence.gateway.kills.clients import LIMIT_MS, Client
from tests.evidence.gateway.kills.verdict import Report, check
from tests.evidence.progress import progress
from tests.evidence.report import publish
from tests.support.gateway import protocol, start_gateway

PAGE = Path(__file__).with_name("page.md.in")
REPEATS_SECONDS = 600.0
"""`repeats.window_seconds`: how long the job remembers admitted requests."""

_RATE = 8.0
_CLIENTS = 6
_CLIENT_SECONDS = 120
_PACKAGES = ("pyspark", "delta-spark", "confluent-kafka")


@dataclass(frozen=True, slots=True)
class Size:
    """The kills of the gateway."""

    kills: int
    """The number of kills by SIGKILL, each followed by a new start."""
    between: tuple[float, float] = (0.3, 3.0)
    """The shortest and the longest time from a start to its kill, s."""


FULL = Size(50)
SMOKE = Size(4, (0.3, 1.5))


def main() -> None:
    """Run the experiment; exit 1 if a check fails."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = _options()
    size, notify = SMOKE if options.smoke else FULL, progress()
    try:
        with (
            TemporaryDirectory(prefix="mutation-quota-") as folder,
            ground(base_settings(Path(folder)), Path(folder)) as where,
        ):
            settings = kills_settings(where)
            with enforcing(settings):
                results = under_kills(where, settings, size, options.seed, notify)
    except (MutationQuotaError, AssertionError) as error:
        sys.exit(f"gateway-kills: {error}")
    except KeyboardInterrupt:
        sys.exit("gateway-kills: interrupted; nothing was written")
    publish(results, PAGE, options.out and not results["wrong"] and options.out / "gateway-kills.md")
    if results["wrong"]:
        sys.exit("\n".join(["gateway-kills:", *results["wrong"]]))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.gateway.kills", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help=f"{SMOKE.kills} kills")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the times and steps (default: the time)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for the page and the JSON of a whole run")
    options = parser.parse_args()
    if options.out and options.smoke:
        parser.error("--out writes the page of a whole run: without --smoke")
    return options


def kills_settings(where: Ground) -> Settings:
    """Return a deployment with deduplication."""
    settings = where.deployment("kills")
    repeats = settings.repeats.model_copy(update={"window_seconds": REPEATS_SECONDS})
    return settings.model_copy(update={"repeats": repeats})


def under_kills(
    where: Ground, settings: Settings, size: Size, seed: int, notify: Callable[[str], None]
) -> dict[str, Any]:
    """Kill and restart a gateway while clients change topics through it, and return what happened and what is wrong.

    Args:
        where: The broker.
        settings: A deployment whose job is running.
        size: The kills.
        seed: The seed of their times, and of the clients' steps.
        notify: Takes a line of progress.
    """
    write_record(settings, QuotaRecord(QuotaEntity(None), _RATE))
    chance, log = random.Random(seed), where.folder / "killed-gateway.log"
    gateway = start_gateway(settings, log)
    over = False
    clients = [Client(number, gateway.port, protocol(), lambda: over, seed) for number in range(_CLIENTS)]
    try:
        for client in clients:
            client.start()
        for number in range(size.kills):
            time.sleep(chance.uniform(*size.between))
            gateway.process.kill()
            gateway.process.wait()
            gateway = start_gateway(settings, log, port=gateway.port)
            notify(f"{number + 1} kills, {sum(client.tally.calls for client in clients)} calls")
        over = True
        for client in clients:
            client.join(_CLIENT_SECONDS)
        hanging = [client.name for client in clients if client.is_alive()]
    finally:
        over = True
        gateway.process.terminate()
        gateway.process.wait(60)
    report = check(settings, [client.tally for client in clients])
    report.wrong += [f"{name} is still waiting" for name in hanging]
    if "Traceback" in log.read_text(errors="replace"):
        report.wrong.append("the gateway has logged an unexpected error")
    return _results(report, size, seed)


def _results(report: Report, size: Size, seed: int) -> dict[str, Any]:
    shortest, longest = size.between
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "seed": seed,
        "kills": size.kills,
        "between_s": {"shortest": shortest, "longest": longest},
        "clients": _CLIENTS,
        "repeats_window_s": REPEATS_SECONDS,
        "time_limit_s": LIMIT_MS / 1000,
        **{name: report.total(name) for name in ("calls", "broken", "throttled", "undecided", "found_done")},
        "steps": {name: report.steps[name] for name in ("created", "grown", "deleted")},
        "decisions": report.decisions,
        "repeats": report.repeats.total(),
        "creations_charged_twice": report.paid_twice[Operation.CREATE_TOPICS.name],
        "longest_ms": max(tally.longest_ms for tally in report.tallies),
        "violations": len(report.wrong),
        "wrong": report.wrong,
        "versions": {package: version(package) for package in _PACKAGES},
    }


if __name__ == "__main__":
    main()
