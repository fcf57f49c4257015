"""Valid and invalid requests of several users, and changes of their quotas, sent by a thread."""

import json
import random
import threading
from contextlib import contextmanager

from confluent_kafka import Producer

from jobs.background import background
from quota.kafka.librdkafka import client_config
from quota.kafka.topics.preparation import prepare_topics

RATES = {"ann": 4.0, "bob": 9.0, "cleo": 2.5, "dan": 15.0, None: 6.0}
"""The first quotas, mutations/s; None is the default user, whose quota applies to each other user separately."""

_USERS = ("ann", "bob", "cleo", "dan", "eve", "fay", "gus", "hal", "ida", "jon")
_OPERATIONS = (("CREATE_TOPICS", 5), ("CREATE_TOPICS", 7), ("CREATE_PARTITIONS", 3), ("DELETE_TOPICS", 4))
_BAD = (None, b"no json", b'{"user": 7}', b"\xff\xfe")
_BAD_SHARE = 0.02
_QUOTA_SECONDS = 0.7
_REMOVED_SHARE = 0.2
_FLUSH_SECONDS = 60.0


class Traffic:
    """Random requests and quota changes, from a seed; each user's requests go to one partition."""

    def __init__(self, settings, seed=599):
        """Connect to the broker."""
        self._topics = settings.topics
        self._producer = Producer(client_config(settings.kafka.connection, {"enable.idempotence": True}))
        self._random = random.Random(seed)
        self.sent = 0
        self.acknowledged = []
        """Topic, partition, offset (None: unknown), key and value of each record that the brokers have acknowledged."""
        self._changing = threading.Lock()
        self._steady = False

    @classmethod
    @contextmanager
    def flowing(cls, settings, requests_per_second):
        """Send to new topics with the first quotas inside the block; at its end all records are acknowledged."""
        prepare_topics(settings)
        self = cls(settings)
        for user, rate in RATES.items():
            self._set_quota(user, rate)
        assert self._producer.flush(_FLUSH_SECONDS) == 0
        try:
            with background(lambda end: self._flow(end, requests_per_second), "traffic"):
                yield self
        finally:
            assert self._producer.flush(_FLUSH_SECONDS) == 0

    @contextmanager
    def steady_quotas(self):
        """Change no quota inside the block, while requests flow; consumers see all earlier changes.

        A replica that hangs delays the visibility of records, differently for each topic. Requests may become visible
        before a change that applies to them, which the guarantees exempt.
        """
        with self._changing:
            self._steady = True
        assert self._producer.flush(_FLUSH_SECONDS) == 0
        try:
            yield
        finally:
            self._steady = False

    def _flow(self, end, requests_per_second):
        quotas_every = max(1, round(requests_per_second * _QUOTA_SECONDS))
        while not end.wait(self._random.expovariate(requests_per_second)):
            self.send()
            if self.sent % quotas_every == 0:
                with self._changing:
                    if not self._steady:
                        self._change_a_quota()

    def send(self):
        """Send one request, or an invalid record."""
        user = self._random.choice(_USERS)
        bad = self._random.random() < _BAD_SHARE
        value = self._random.choice(_BAD) if bad else self._request(user)
        self._producer.produce(self._topics.requests, value, user.encode(), on_delivery=self._on_delivery)
        self._producer.poll(0)
        self.sent += 1

    def _request(self, user):
        draw = self._random
        operation, api_version = draw.choice(_OPERATIONS)
        topics = [{"name": f"t{number}", "partitions": draw.randrange(9)} for number in range(draw.randrange(1, 5))]
        request = {
            "request_id": f"r{self.sent}",
            "user": user,
            "client_id": draw.choice(("app", "cli")),
            "operation": operation,
            "api_version": api_version,
            "validate_only": draw.random() < 0.1,
            "request_throttle_ms": draw.choice((0, 0, 20)),
            "purgatory_ms": draw.choice((0, 0, 5)),
            "topics": topics,
        }
        return json.dumps(request).encode()

    def _change_a_quota(self):
        """Set another rate, or remove the quota."""
        user = self._random.choice(list(RATES))
        removed = user is not None and self._random.random() < _REMOVED_SHARE
        self._set_quota(user, None if removed else RATES[user] * self._random.uniform(0.5, 2.0))

    def _set_quota(self, user, rate):
        key = json.dumps({"user": user})
        value = {"entity": {"user": user}, "controller_mutation_rate": rate}
        self._producer.produce(
            self._topics.quotas, json.dumps(value).encode(), key.encode(), on_delivery=self._on_delivery
        )

    def _on_delivery(self, error, message):
        if error is None:
            record = (message.topic(), message.partition(), message.offset(), message.key(), message.value())
            self.acknowledged.append(record)
