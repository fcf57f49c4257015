"""Kills of a job while clients wait for its decisions, and give up: they are charged for what exists."""

import random
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from jobs.query_names import ENFORCE
from jobs.sandbox.broker import embedded_broker, with_plaintext_cluster
from quota.kafka.quotas.writer import write_record
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.settings import load_settings
from quota.settings.storage import checkpoint_folder
from schemas.buckets import STATE_VERSION
from tests.evidence.chaos.kills import START_SECONDS
from tests.evidence.chaos.processes import Job
from tests.evidence.chaos.run import finish
from tests.evidence.chaos.steps import latest_batch
from tests.evidence.gateway.kills.clients import Client
from tests.evidence.gateway.kills.verdict import REPEATS_SECONDS, check
from tests.support.deployment import make_deployment, set_options
from tests.support.gateway import protocol, running_gateway
from tests.support.waiting import until

_GATEWAYS = 2
_LIMITS_MS = (3000, 4000, 5000, 8000, 12_000, 15_000)
"""The time limits of the clients. The least one leaves a busy broker time for what was decided."""
_GIVES_UP = 0.5
_RATE = 4.0
"""The quota of each client [mutations/s]."""
_RUNNING_SECONDS = 3.0
_CLIENT_SECONDS = 120
_PREFIX = "asked-"
"""The prefix of the names of all topics."""
_OPTIONS = set_options(f"repeats.window_seconds={REPEATS_SECONDS}")


def run_clients(folder, kills, notify):
    """Kill a job again and again; return the report on the clients and their charges."""
    folder.mkdir()
    base = load_settings([f"storage.root={folder}"], environment={})
    log, chance, over = folder / "jobs.log", random.Random(599), threading.Event()
    with ExitStack() as stack:
        broker = stack.enter_context(embedded_broker(base, port=0))
        settings = make_deployment(with_plaintext_cluster(base, broker.address), "clients", folder / "job")
        prepare_topics(settings)
        write_record(settings, QuotaRecord(QuotaEntity(client_id=None), _RATE))
        with ExitStack() as gateways:
            logs = [folder / f"gateway-{number}.log" for number in range(_GATEWAYS)]
            ports = [gateways.enter_context(running_gateway(settings, each)).port for each in logs]
            clients = [
                Client(number, ports, protocol(), over.is_set, 599, _PREFIX, limit_ms=limit_ms, gives_up=_GIVES_UP)
                for number, limit_ms in enumerate(_LIMITS_MS)
            ]
            stack.callback(over.set)
            for client in clients:
                client.start()
            for number in range(1, kills + 1):
                with _deciding(settings, log):
                    time.sleep(chance.uniform(0, _RUNNING_SECONDS))
                notify(f"{number} kills, {sum(client.tally.calls for client in clients)} calls of clients")
            with _deciding(settings, log):
                over.set()
                for client in clients:
                    client.join(_CLIENT_SECONDS)
        finish(settings, log, *_OPTIONS, with_audit=False)
        report = check(settings, [client.tally for client in clients], _PREFIX)
    report.wrong += [f"{client.name} is still waiting" for client in clients if client.is_alive()]
    return report


@contextmanager
def _deciding(settings, log):
    """Start a job, run the block when it has committed a batch, and kill it."""
    commits = Path(settings.storage.url, checkpoint_folder(ENFORCE, STATE_VERSION)) / "commits"
    before, job = latest_batch(commits), Job(settings, log, *_OPTIONS, with_audit=False)
    try:
        until(lambda: job.exit_code is not None or latest_batch(commits) != before, START_SECONDS)
        yield
        assert job.exit_code is None, f"ended by itself:\n{job.output[-3000:]}"
    finally:
        job.kill()
