"""Deployments whose audit has stored decisions, without a broker; and requests that quotas are recommended for."""

import json

from quota.admission.policy import Policy
from quota.algorithms.token_bucket import TokenBucket
from quota.records import codec
from quota.records.decision import Decision
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Window
from quota.whatif.recommendation import SizingInput
from quota.whatif.simulation import read_quotas, simulate
from tests.support.checkout import CHECKOUT
from tests.support.deployment import with_sections
from tests.support.factories import PERMISSIVE
from tests.support.factories import request_after as at
from tests.support.rows import kafka_rows
from tests.support.tables import audit_records


def at_root(settings, root):
    """Return settings with another storage root."""
    return with_sections(settings, storage={"root": str(root)})


def audited(base_settings, root, requests, quotas, *, changes=None, start=0, more=()):  # noqa: PLR0913
    """Return the settings of a deployment that has decided and audited requests.

    The user admin is exempt, and requests are repeats for a second. The quotas that decide are objects of JSON, as are
    the changes of the quota log, by their time in ms after `start`, which is the time of the decisions (epoch ms).
    """
    sections = {"quota": {"exempt_users": ["admin"]}, "repeats": {"window_seconds": 1.0}}
    settings = with_sections(at_root(base_settings, root), **sections)
    algorithm, policy = TokenBucket(Window(), Policy.of(settings).deduplication), Policy.of(settings)
    by = read_quotas(json.dumps(quota).encode() for quota in quotas)
    answers = [*simulate(requests, by, algorithm, policy=policy), *more]
    records = {settings.topics.decisions: [], settings.topics.dead_letters: []}
    for answer in answers:
        topic = settings.topics.decisions if isinstance(answer, Decision) else settings.topics.dead_letters
        records[topic].append(codec.encode(answer))
    rows = [
        row
        for topic, values in records.items()
        for row in kafka_rows(values, timestamps=[start] * len(values), topic=topic)
    ]
    logged = {start + ms: json.dumps(change).encode() for ms, change in (changes or {}).items()}
    rows += kafka_rows(logged.values(), timestamps=[*logged], topic=settings.topics.quotas)
    audit_records(settings, rows)
    return settings


PAGE = (CHECKOUT / "docs/how-to/recommend.md").read_text()
GROUND = SizingInput(capacity=100.0, reserve=0.2, over_allocation=None, window=Window())

REQUESTS = [
    at(0, 50, 5, client_id="a", request_id="twice"),  # of 55: before the second topic 50
    at(0, 50, 5, client_id="a", request_id="twice"),  # paid for in the audit; 105 in a file
    at(1000, 11, client_id="b", request_id="b"),  # 55 in 12 s in the audit; 121 in a file
    at(1000, 99, validate_only=True, request_id="v"),
    at(2000, 22, user="bob", client_id="b", api_version=PERMISSIVE, request_id="o"),
    at(3000, 99, user="admin", request_id="x"),
    at(4000, 7, user="carol", validate_only=True, request_id="w"),
]
ALICE, BOB = QuotaEntity("alice"), QuotaEntity("bob")
