"""The two sides of the comparison, broker and gateway: their users, quotas and topics, and a warm-up."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql.streaming.query import StreamingQuery

from jobs.sandbox.broker import HOST
from quota.errors import MutationQuotaError
from quota.kafka.quotas.writer import QuotaWriter
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.settings import Settings
from tests.evidence.gateway.ground import WINDOW_NUM, Ground, password_of
from tests.evidence.gateway.requests import create
from tests.support.broker import allow
from tests.support.deployment import with_sections
from tests.support.gateway import Gateway, protocol
from tests.support.kafka_configs import set_quotas
from tests.support.waiting import until
from tests.support.wire.requests import topic as new_topic

RATE = 0.5
"""Each user's quota (mutations/s); a debt of 8 lasts 16 s, also while a busy machine answers."""

BURST = 3
"""Tokens of a full bucket, which few partitions overdraw: `WINDOW_NUM` windows at this rate."""

NUMBERED = 120
"""Number of users on each side of which a case takes one; each has a full bucket."""
CLIENT_IDS = ("one", "two")
"""Clients of the user `clients`, who has a quota for each of them."""

_ALLOWED = {"TOPIC": "*", "GROUP": "*", "TRANSACTIONAL_ID": "*", "BROKER": "kafka-cluster"}
"""What everyone may use, by kind."""
_DIRECT, _GATEWAY = "direct", "gateway"
_SECONDS = 30
_WARM_SECONDS = 120
_WARM_UPS = 8
_TIMED_OUT = 7


@dataclass(frozen=True, slots=True)
class Side:
    """The address, the users and the topics of a side's programs."""

    name: str
    """The side's name; with a hyphen, it is the prefix of its users and topics."""
    port: int

    @property
    def address(self) -> str:
        """Bootstrap server, as `host:port`."""
        return f"{HOST}:{self.port}"

    def user(self, number: int | str) -> str:
        """Return the name of a user; one with a name instead of a number is special in some way."""
        return f"{self.name}-{number:03}" if isinstance(number, int) else f"{self.name}-{number}"

    def topic(self, name: str) -> str:
        """Return the name of a topic that the other side does not have."""
        return f"{self.name}-{name}"

    def plain(self, text: str) -> str:
        """Return a text without the name of the side and its address."""
        text = text.replace(f"{self.name}-", "").replace(self.address, "HOST:PORT")
        return text.replace(f"{HOST}, {self.port}", "ADDRESS")


USERS = tuple(
    Side(side, 0).user(number) for side in (_DIRECT, _GATEWAY) for number in (*range(NUMBERED), "clients", "denied")
)
"""The users that authenticate by PLAIN."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides, on one broker."""

    ground: Ground
    direct: Side
    gateway: Side
    admin: AdminClient
    """Admin client of a user without a quota, at the broker."""
    check: Callable[[], None]
    """Raises MutationQuotaError if the job or the gateway has ended."""

    @property
    def both(self) -> tuple[Side, Side]:
        """The broker's side, and the gateway's."""
        return self.direct, self.gateway

    def create_topics(self, topics: dict[str, int]) -> None:
        """Create topics on both sides, given their numbers of partitions; return once brokers know them."""
        wanted = {side.topic(name): count for side in self.both for name, count in topics.items()}
        for future in self.admin.create_topics([NewTopic(*topic) for topic in wanted.items()]).values():
            future.result(_SECONDS)
        until(lambda: wanted.keys() <= self.admin.list_topics(timeout=_SECONDS).topics.keys(), _SECONDS)

    def topics_of(self, side: Side) -> dict[str, int]:
        """Return the partitions of a side's topics, by their names without the side's prefix."""
        topics = self.admin.list_topics(timeout=_SECONDS).topics
        own = {name: len(topic.partitions) for name, topic in topics.items() if name.startswith(side.topic(""))}
        return {side.plain(name): own[name] for name in sorted(own)}


def conformance_settings(where: Ground) -> Settings:
    """Return a deployment whose job has the broker's number of windows."""
    return with_sections(where.deployment("conformance"), quota={"window_num": WINDOW_NUM})


@contextmanager
def sides(where: Ground, settings: Settings, query: StreamingQuery) -> Iterator[Sides]:
    """Run the gateway of a job inside the block, with both sides' users and quotas; both are warmed up."""
    admin = where.admin
    with where.authenticating_gateway(settings, "conformance-gateway") as gateway:
        direct, through = Side(_DIRECT, where.sasl), Side(_GATEWAY, gateway.port)
        pair = Sides(where, direct, through, admin, lambda: _check(query, gateway))
        _add_users(pair)
        _set_quotas(pair, settings)
        _warm_up(pair)
        yield pair


def _check(query: StreamingQuery, gateway: Gateway) -> None:
    if not query.isActive:
        raise MutationQuotaError(f"enforce has ended: {query.exception()}")
    if gateway.process.poll() is not None:
        raise MutationQuotaError(f"the gateway has ended: {gateway.log.read_text(errors='replace')[-2000:]}")


def _add_users(pair: Sides) -> None:
    """Grant all users everything except what the denied one must not do."""
    allow(pair.admin, "*", [(kind, name, "LITERAL", "ALL") for kind, name in _ALLOWED.items()])
    creation = AclOperation.CREATE, AclPermissionType.DENY
    denied = [
        AclBinding(ResourceType[kind], _ALLOWED[kind], ResourcePatternType.LITERAL, f"User:{user}", "*", *creation)
        for user in (side.user("denied") for side in pair.both)
        for kind in ("TOPIC", "BROKER")
    ]
    for future in pair.admin.create_acls(denied).values():
        future.result(_SECONDS)


def _set_quotas(pair: Sides, settings: Settings) -> None:
    """Set each direct user's quota on the broker, and that of the gateway's users in the quota topic."""
    users = (*range(NUMBERED), "denied")
    entities = [{"users": pair.direct.user(user)} for user in users]
    entities += [{"users": pair.direct.user("clients"), "clients": client} for client in CLIENT_IDS]
    set_quotas(f"{HOST}:{pair.ground.port}", protocol(), *entities, controller_mutation_rate=RATE)
    own = [QuotaEntity(pair.gateway.user(user)) for user in users]
    own += [QuotaEntity(pair.gateway.user("clients"), client) for client in CLIENT_IDS]
    QuotaWriter(settings).write([QuotaRecord(entity, RATE) for entity in own])


def _warm_up(pair: Sides) -> None:
    """Have both sides create topics, several at once, so that their first observations are not slow.

    The job's first batch may take longer than the gateway waits for a decision.
    """
    deadline = time.monotonic() + _WARM_SECONDS

    def warm(side: Side, number: int) -> None:
        user, decided = side.user(NUMBERED - 1 - number), 0
        with pair.ground.connect(side.port) as client:
            client.authenticate(user, password_of(user))
            while decided < BURST:
                topic = new_topic(side.topic(f"warm-{number}-{decided}"), 1)
                answer = create("warm-up", 5, topic).call(client)
                (result,) = answer["topics"]
                decided += not result["errorCode"]
                if result["errorCode"] and (result["errorCode"] != _TIMED_OUT or time.monotonic() > deadline):
                    raise MutationQuotaError(f"{side.name} cannot be used: {result['errorMessage']}")
                pair.check()

    with ThreadPoolExecutor(2 * _WARM_UPS) as pool:
        list(pool.map(warm, pair.both * _WARM_UPS, [number // 2 for number in range(2 * _WARM_UPS)]))
