"""Kills a gateway under load many times, and renews its certificate and restarts the job: `make gateway-kills`."""

import random
import ssl
import time
from argparse import Namespace
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.sandbox.broker import HOST
from jobs.services.spark import claimed_deployment
from jobs.storage.files import DeploymentSession
from quota.errors import MutationQuotaError
from quota.kafka.quotas.writer import write_record
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.records.request import Operation
from tests.evidence.command import Notify, run
from tests.evidence.gateway.ground import Ground, on_ground, query_of
from tests.evidence.gateway.kills.clients import LIMIT_MS, Client
from tests.evidence.gateway.kills.verdict import REPEATS_SECONDS, Report, check, remembering
from tests.evidence.machine import versions
from tests.support.gateway import protocol, start_gateway
from tests.support.waiting import until

PAGE = Path(__file__).with_name("page.md.in")

_PREFIX = "killed-"
"""The prefix of the names of all topics."""
_RATE = 8.0
_CLIENTS = 6
_CLIENT_SECONDS = 120
_FIRST_SECONDS = 120
"""Time for the job's first decision."""
_CERTIFICATE = "killed"
"""The name of the gateway's certificate."""
_RENEWED_SECONDS = 30
"""Time for a renewed certificate to be used."""


@dataclass(frozen=True, slots=True)
class Size:
    """The kills of the gateway, and the changes of what it runs with."""

    kills: int
    """The number of kills by SIGKILL, each followed by a new start."""
    kills_between_changes: int
    """After so many kills, the certificate is renewed and the job restarted."""
    between: tuple[float, float] = (0.3, 3.0)
    """The shortest and the longest time from a start to its kill, s."""


FULL = Size(50, 10)
SMOKE = Size(2, 2, (1.0, 2.0))


def _play(where: Ground, options: Namespace, notify: Notify) -> dict[str, Any]:
    settings = remembering(where.deployment("kills"))
    with claimed_deployment(settings, "enforce", where.folder / "kills.log") as job:
        return under_kills(where, job, SMOKE if options.smoke else FULL, options.seed, notify)


def under_kills(where: Ground, job: DeploymentSession, size: Size, seed: int, notify: Notify) -> dict[str, Any]:
    """Kill and restart a gateway while clients change topics through it, and return what happened and what is wrong.

    `seed` is that of the kills' times, and of the clients' steps.

    Raises:
        MutationQuotaError: The job has ended.
    """
    settings = job.settings
    write_record(settings, QuotaRecord(QuotaEntity(None), _RATE))
    chance, log, given = random.Random(seed), where.folder / "killed-gateway.log", where.encryption(_CERTIFICATE)
    over, changes = False, 0
    with ExitStack() as stack:
        query = stack.enter_context(query_of(job))
        gateway = start_gateway(settings, log, *given)
        clients = [
            Client(number, [gateway.port], protocol(), lambda: over, seed, _PREFIX, tls=where.trusting())
            for number in range(_CLIENTS)
        ]
        try:
            for client in clients:
                client.start()
            until(lambda: any(client.tally.steps for client in clients), _FIRST_SECONDS)
            for number in range(1, size.kills + 1):
                time.sleep(chance.uniform(*size.between))
                gateway.process.kill()
                gateway.process.wait()
                gateway = start_gateway(settings, log, *given, port=gateway.port)
                if number % size.kills_between_changes == 0:
                    _renew_certificate(where, gateway.port)
                    if not query.isActive:
                        raise MutationQuotaError(f"enforce has ended: {query.exception()}")
                    stack.close()
                    query = stack.enter_context(query_of(job))
                    changes += 1
                notify(f"{number} kills, {sum(client.tally.calls for client in clients)} calls")
            over = True
            for client in clients:
                client.join(_CLIENT_SECONDS)
            hanging = [client.name for client in clients if client.is_alive()]
        finally:
            over = True
            gateway.process.terminate()
            gateway.process.wait(60)
    report = check(settings, [client.tally for client in clients], _PREFIX)
    report.wrong += [f"{name} is still waiting" for name in hanging]
    if "Traceback" in log.read_text(errors="replace"):
        report.wrong.append("the gateway has logged an unexpected error")
    return _results(report, size, changes, seed)


def _renew_certificate(where: Ground, port: int) -> None:
    """Renew the certificate of the gateway at a port, and return once clients that connect get the new one."""
    before = ssl.get_server_certificate((HOST, port))
    where.authority.sign(_CERTIFICATE, HOST)
    until(lambda: ssl.get_server_certificate((HOST, port)) != before, _RENEWED_SECONDS)


def _results(report: Report, size: Size, changes: int, seed: int) -> dict[str, Any]:
    shortest, longest = size.between
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "seed": seed,
        "kills": size.kills,
        "between_s": {"shortest": shortest, "longest": longest},
        "kills_between_changes": size.kills_between_changes,
        "changes": changes,
        "clients": _CLIENTS,
        "repeats_window_s": REPEATS_SECONDS,
        "time_limit_s": LIMIT_MS / 1000,
        **{name: report.total(name) for name in ("calls", "broken", "throttled", "undecided", "found_done")},
        "steps": {name: report.steps[name] for name in ("created", "grown", "deleted")},
        "decisions": report.decisions,
        "repeats": report.repeats.total(),
        "withdrawn": report.withdrawn,
        "creations_charged_twice": report.paid_twice[Operation.CREATE_TOPICS.name],
        "charged_minus_made": report.charged_minus_made,
        "longest_ms": max(tally.longest_ms for tally in report.tallies),
        "violations": len(report.wrong),
        "wrong": report.wrong,
        "versions": versions(),
    }


if __name__ == "__main__":
    run("gateway-kills", on_ground(_play), PAGE, seed=int(time.time()))
