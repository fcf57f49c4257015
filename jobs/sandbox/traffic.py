"""Simulates tenants of a shared cluster: well-behaved ones, an old client, and one that ignores throttle times."""

import random
from dataclasses import dataclass, field

from jobs.sandbox.unmodified import KAFKA_TOPICS, LIBRDKAFKA
from quota.kafka.quotas.writer import write_record
from quota.kafka.requests import RequestWriter
from quota.records.decision import Decision
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.records.request import ANONYMOUS, MutationRequest, Operation, TopicMutation
from quota.settings import Settings

_NEW_API, _OLD_API = 7, 5
_SEED = 599


@dataclass(slots=True)
class SimulatedClient:
    """A client: its requests, their interval, and whether it waits for its throttle time."""

    user: str
    client_id: str
    requests_per_second: float
    topics: int
    partitions: int
    api_version: int = _NEW_API
    honors_throttle: bool = True
    next_at: float = 0.0
    """The time of the next request [s since the epoch]."""
    muted_until: float = field(default=0.0, init=False)
    """The end of its throttle time [s since the epoch]."""


def simulated_clients() -> list[SimulatedClient]:
    """Return five tenants with different behaviour."""
    return [
        SimulatedClient("orders", "order-service", 2, topics=1, partitions=3),
        SimulatedClient("payments", "ledger", 1, topics=2, partitions=6),
        SimulatedClient("etl", "nightly-batch", 0.5, topics=12, partitions=8),
        SimulatedClient("legacy", "old-admin", 1, topics=1, partitions=12, api_version=_OLD_API),
        SimulatedClient("rogue", "loop", 5, topics=3, partitions=20, honors_throttle=False),
    ]


def set_tenant_quotas(settings: Settings) -> None:
    """Set a quota of 10 mutations/s for every user, more for the nightly batch, and less for unmodified clients."""
    comment = "tenants of mutation-quota run"
    write_record(settings, QuotaRecord(QuotaEntity(None), 10.0, comment=comment))
    for user, client_id, rate in (
        ("etl", "nightly-batch", 20.0),
        (ANONYMOUS, KAFKA_TOPICS, 1.0),
        (ANONYMOUS, LIBRDKAFKA, 2.0),
    ):
        write_record(settings, QuotaRecord(QuotaEntity(user, client_id), rate, comment=comment))


class Traffic:
    """The tenants' requests; callers pass the time (seconds since the epoch) and the decisions."""

    def __init__(self, writer: RequestWriter, clients: list[SimulatedClient]) -> None:
        self._writer = writer
        self._tenants = {(tenant.user, tenant.client_id): tenant for tenant in clients}
        self._random = random.Random(_SEED)  # noqa: S311 traffic, not secrets
        self._sent = 0

    def send_due(self, now: float) -> None:
        """Send a request for each tenant that is due and not throttled."""
        for tenant in self._tenants.values():
            if now < tenant.next_at or (tenant.honors_throttle and now < tenant.muted_until):
                continue
            self._writer.send(self._request(tenant))
            tenant.next_at = now + self._random.expovariate(tenant.requests_per_second)

    def on_decision(self, decision: Decision, now: float) -> None:
        """Mute the tenant for the throttle time of a decision."""
        tenant = self._tenants.get((decision.user, decision.client_id))
        if tenant is not None:
            tenant.muted_until = max(tenant.muted_until, now + decision.throttle_time_ms / 1000)

    def _request(self, tenant: SimulatedClient) -> MutationRequest:
        self._sent += 1
        return MutationRequest(
            request_id=f"{tenant.client_id}-{self._sent}",
            user=tenant.user,
            client_id=tenant.client_id,
            operation=Operation.CREATE_TOPICS,
            api_version=tenant.api_version,
            apply=False,  # the requests are only decided
            topics=[
                TopicMutation(f"{tenant.user}-{self._sent}-{number}", tenant.partitions)
                for number in range(tenant.topics)
            ],
        )
