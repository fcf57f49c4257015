"""Applications that change topics far above their quotas."""

import random
import threading
import time
from concurrent.futures import wait

from confluent_kafka.admin import NewPartitions, NewTopic

from quota.kafka.admin.client import QuotaAdminClient
from quota.kafka.admin.options import ClientOptions
from tests.support.storm.aftermath import check

CALL_SECONDS = 30.0
"""Time limit of a call, seconds."""

PREFIX = "storm-"
"""Prefix of all topic names."""


class Storm:
    """Applications with several threads and a client-id each; two applications share a user."""

    def __init__(self, settings, applications, threads, seed=599):
        """Prepare the applications, without sending."""
        self._settings = settings
        self._applications = applications
        self._threads = threads
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._calls = []

    def rage(self, seconds):
        """Send for `seconds`, wait for all calls to end, and return the report of the checks."""
        clients = [self._client(number) for number in range(self._applications)]
        until = time.monotonic() + seconds
        threads = [
            threading.Thread(target=self._work, args=(number, clients[number % len(clients)], until))
            for number in range(self._threads)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        wait([future for call in self._calls for future in call.values()], timeout=2 * CALL_SECONDS)
        for client in clients:
            client.close(wait=False)
        return check(self._settings, self._calls, PREFIX)

    def _client(self, number):
        who = {"user": f"tenant-{number // 2}", "client_id": f"storm-{number}"}
        limit = {"api_timeout_seconds": CALL_SECONDS}
        client = self._settings.client.model_copy(update={**who, **limit})
        return QuotaAdminClient(ClientOptions.from_settings(self._settings.model_copy(update={"client": client})))

    def _work(self, number, client, until):
        """Create, grow and delete the thread's own topics, waiting for most calls."""
        rng = random.Random(self._random.random())
        made, count = [], 0
        while time.monotonic() < until:
            what = rng.choices(["create", "grow", "delete"], [70, 15, 15])[0] if made else "create"
            if what == "delete":
                call = client.delete_topics([made.pop()])
            elif what == "grow":
                call = client.create_partitions([NewPartitions(made[-1], rng.randint(4, 6))])
            else:
                count += 1
                topics = [
                    NewTopic(f"{PREFIX}{number}-{count}-{each}", rng.randint(1, 3)) for each in range(rng.randint(1, 3))
                ]
                call = client.create_topics(topics, retry_on_quota_violation=rng.random() < 0.7)
            with self._lock:
                self._calls.append(call)
            if rng.random() < 0.1:
                time.sleep(rng.random())
                continue
            done = [name for name, future in call.items() if future.exception(timeout=2 * CALL_SECONDS) is None]
            made += done if what == "create" else []
