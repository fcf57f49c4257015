"""Tenants of a shared cluster, to see the job at work: well-behaved ones, an old client, and one that hammers."""

import random
from dataclasses import dataclass, field

from quota.kafka.quota_writer import write_record
from quota.kafka.requests import RequestWriter
from quota.records.decision import Decision
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.records.request import MutationRequest, Operation, TopicMutation
from quota.settings.model import Settings

_NEW_API, _OLD_API = 7, 5
_SEED = 599


@dataclass(slots=True)
class SimulatedClient:
    """One client: what it sends, how often, and whether it keeps to the throttle time that it is told."""

    user: str
    client_id: str
    requests_per_second: float
    topics: int
    partitions: int
    api_version: int = _NEW_API
    keeps_throttle: bool = True
    next_at: float = 0.0
    muted_until: float = field(default=0.0, init=False)


def simulated_clients() -> list[SimulatedClient]:
    """Five tenants, each with a way of its own."""
    return [
        SimulatedClient("orders", "order-service", 2, topics=1, partitions=3),
        SimulatedClient("payments", "ledger", 1, topics=2, partitions=6),
        SimulatedClient("etl", "nightly-batch", 0.5, topics=12, partitions=8),
        SimulatedClient("legacy", "old-admin", 1, topics=1, partitions=12, api_version=_OLD_API),
        SimulatedClient("rogue", "loop", 5, topics=3, partitions=20, keeps_throttle=False),
    ]


def set_tenant_quotas(settings: Settings) -> None:
    """Ten mutations a second for everybody, and twenty for the batch."""
    comment = "tenants of mutation-quota run"
    write_record(settings, QuotaRecord(QuotaEntity(None), 10.0, comment=comment))
    write_record(settings, QuotaRecord(QuotaEntity("etl", "nightly-batch"), 20.0, comment=comment))


class Traffic:
    """What the tenants send; the caller gives the time (seconds) and passes on what was decided."""

    def __init__(self, writer: RequestWriter, senders: list[SimulatedClient]) -> None:
        self._writer = writer
        self._tenants = {(tenant.user, tenant.client_id): tenant for tenant in senders}
        self._random = random.Random(_SEED)  # noqa: S311 traffic, not secrets
        self._sent = 0

    def send_due(self, now: float) -> None:
        """Send the requests of all tenants whose time has come."""
        for tenant in self._tenants.values():
            if now < tenant.next_at or (tenant.keeps_throttle and now < tenant.muted_until):
                continue
            self._writer.send(self._request(tenant))
            tenant.next_at = now + self._random.expovariate(tenant.requests_per_second)

    def hear(self, decision: Decision, now: float) -> None:
        """Let a tenant know what was decided."""
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
            apply=False,  # they only want to be decided
            topics=[
                TopicMutation(f"{tenant.user}-{self._sent}-{number}", tenant.partitions)
                for number in range(tenant.topics)
            ],
        )
