"""Users who request continuously while parts of a job are killed, and the expected decisions for each of them."""

import json
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from jobs.background import background
from quota.kafka.quotas.writer import write_record
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from tests.support.factories import request_json
from tests.support.operator import HARDLY_ANY
from tests.support.topics import decisions_of, produce

USERS = [f"user-{number}" for number in range(12)]
SOME = 5 * len(USERS)
"""Requests of a second or so."""

_ROUND_SECONDS = 0.2
_LEAST_TOKENS = -2
"""Of a burst of 100, by requests for 2 partitions: the 51st is the last that is admitted."""


def prepare_users(deployment):
    """Prepare the topics, and give each user a burst of 100 mutations that nothing refills."""
    prepare_topics(deployment)
    write_record(deployment, QuotaRecord(QuotaEntity(None), HARDLY_ANY, controller_mutation_burst=100.0))


@contextmanager
def requesting(deployment):
    """A request by each user every now and then inside the block, those of a user in one partition; yields them all."""
    requested = []

    def request(enough):
        while not enough.wait(_ROUND_SECONDS):
            for partition in (0, 1):
                values = [request_json(2, user=user, request_id=uuid4().hex) for user in USERS[partition::2]]
                produce(deployment, deployment.topics.requests, *values, partition=partition)
            requested.extend(USERS)

    with background(request, "requests"):
        yield requested


def check_tokens(deployment, requested):
    """Check that each request was decided by a bucket that no request before it is missing from."""
    tokens = {user: [] for user in USERS}
    for decision in sorted(decisions_of(deployment).values(), key=lambda decision: decision["source"]["offset"]):
        tokens[decision["user"]].append(round(decision["tokens"], 1))
    rounds = len(requested) // len(USERS)
    expected = [max(100 - 2 * number, _LEAST_TOKENS) for number in range(1, rounds + 1)]
    assert [tokens[user] for user in USERS] == [expected] * len(USERS)


def check_leases_released(deployment, *queries):
    """Check that the next job may start at once, on any machine."""
    for query in queries:
        (lease,) = Path(deployment.storage.root, "leases", query).glob("[0-9]*")
        assert json.loads(lease.read_text())["ended"]
