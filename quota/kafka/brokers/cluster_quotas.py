"""A cluster's client quotas (KIP-546); only `controller_mutation_rate` is read and set."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from confluent_kafka import KafkaError

from quota.errors import ClusterError, ErrorCode, MutationQuotaError
from quota.kafka.brokers.broker_calls import FAILURES, BrokerCalls, connected, log_in, tls_context
from quota.kafka.brokers.tokens import failure_reason
from quota.kafka.timing import Backoff, Deadline
from quota.records.entity import QuotaEntity
from quota.records.quota_log import RATE_CONFIG
from quota.settings.connection import Connection
from quota.wire.protocol import ApiKey, Protocol

T = TypeVar("T")

Query: TypeAlias = Callable[[BrokerCalls], Awaitable[T]]

_MAX_ELEMENTS = 20_000_000
_MAX_CHANGES = 1_000
"""The maximum number of entities in a request: a controller rejects a request that results in more than 10,000
records."""


class UnsetQuotas(ClusterError):
    """Some quotas are not set on a cluster, although the others are."""

    def __init__(self, message: str, rejected: Mapping[QuotaEntity, str]) -> None:
        super().__init__(message)
        self.rejected = rejected
        """The brokers' reasons by entity. A quota that is not among them was accepted, and changed by somebody else."""


class ClusterQuotas:
    """The rates that are set on a cluster, by entity. Each call uses a new connection."""

    def __init__(self, connection: Connection, protocol: Protocol, timeout_seconds: float) -> None:
        self.connection = connection
        self._protocol = protocol
        self._timeout = timeout_seconds

    def read(self) -> dict[QuotaEntity, float]:
        """Return the rates [mutations/s]; they may be NaN or infinite, which Kafka before 4.4 accepts.

        Entities without a rate, and those of other kinds than users and client-ids, are left out.
        """

        async def describe(calls: BrokerCalls) -> dict[QuotaEntity, float]:
            version = _version(calls, ApiKey.DESCRIBE_CLIENT_QUOTAS)
            request = {"components": [], "strict": False}
            response = await calls.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, request, _MAX_ELEMENTS)
            _check_response(response, "DescribeConfigs")
            rates = {}
            for entry in response["entries"] or ():
                entity = QuotaEntity.from_parts(entry["entity"])
                for value in entry["values"]:
                    if entity is not None and value["key"] == RATE_CONFIG:
                        rates[entity] = math.nan if math.isnan(value["value"]) else value["value"]  # one NaN
            return rates

        return asyncio.run(self._query("cannot read the quotas of Kafka at", describe))

    def alter(self, rates: Mapping[QuotaEntity, float | None]) -> dict[QuotaEntity, str]:
        """Set rates, or remove those that are None, and leave other quotas of the same entities alone.

        Returns the entities whose change was rejected, and the broker's reason.
        """
        rejected: dict[QuotaEntity, str] = {}
        changes = iter(rates.items())
        while batch := dict(islice(changes, _MAX_CHANGES)):
            rejected |= self._alter(batch)
        return rejected

    def push(self, rates: Mapping[QuotaEntity, float | None]) -> None:
        """Set or remove rates, and wait until the cluster shows them; raises `UnsetQuotas` if it does not show all."""
        rejected = self.alter(rates)
        missing = {entity: rate for entity, rate in rates.items() if entity not in rejected}
        deadline, pauses = Deadline(self._timeout), Backoff()
        while missing:  # brokers learn of a change from the controller with a delay
            present = self.read()
            missing = {entity: rate for entity, rate in missing.items() if present.get(entity) != rate}
            if missing and deadline.has_passed:
                break
            if missing:
                time.sleep(pauses.next())  # each look is a login
        if rejected:
            entity, why = next(iter(rejected.items()))
            raise UnsetQuotas(
                f"Kafka at {self.connection} rejects {len(rejected)} of {len(rates)} quotas, such as {entity}: {why}",
                rejected,
            )
        if missing:
            raise UnsetQuotas(
                f"Kafka at {self.connection} has accepted {len(rates)} quotas but does not have {len(missing)} of "
                f"them, such as {next(iter(missing))}: someone may have changed it at the same time; run quotas drift",
                {},
            )

    async def _query(self, action: str, query: Query[T]) -> T:
        """Call the first broker that can be reached, and return the result."""
        security = self.connection.security
        unreachable = []
        for broker in self.connection.addresses:
            where = f"{broker[0]}:{broker[1]}"
            try:
                async with (
                    asyncio.timeout(self._timeout),
                    connected(broker, tls_context(security), self._protocol) as calls,
                ):
                    await log_in(calls, security)
                    return await query(calls)
            except FAILURES as error:
                if not isinstance(error, OSError | EOFError | UnicodeError):  # the others would return the same
                    raise ClusterError(f"{action} {where}: {failure_reason(error).removesuffix('.')}") from None
                unreachable.append(f"{where}: {failure_reason(error)}")
        advice = "" if security.has_tls or security.has_sasl else self.connection.advice
        raise ClusterError(f"{action} {', '.join(unreachable)}{advice}")

    def _alter(self, rates: Mapping[QuotaEntity, float | None]) -> dict[QuotaEntity, str]:
        async def alter(calls: BrokerCalls) -> dict[QuotaEntity, str]:
            version = _version(calls, ApiKey.ALTER_CLIENT_QUOTAS)
            entries = [
                {"entity": entity.parts, "ops": [{"key": RATE_CONFIG, "value": rate or 0.0, "remove": rate is None}]}
                for entity, rate in rates.items()
            ]
            response = await calls.call(
                ApiKey.ALTER_CLIENT_QUOTAS, version, {"entries": entries, "validateOnly": False}, _MAX_ELEMENTS
            )
            rejected = {}
            for entry in response["entries"]:
                if entry["errorCode"] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                    _check_response(entry, "AlterConfigs")
                entity = QuotaEntity.from_parts(entry["entity"])
                if entry["errorCode"] and entity is not None:
                    rejected[entity] = _reason(entry)
            return rejected

        return asyncio.run(self._query("cannot set the quotas of Kafka at", alter))


def _check_response(response: Mapping[str, Any], operation: str) -> None:
    """Check that a response, or a part of one, is not an error; `operation` is the ACL operation that it needs."""
    if response["errorCode"] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        raise ClusterError(
            f"CLUSTER_AUTHORIZATION_FAILED; allow this principal {operation} on the cluster "
            "(docs/explanation/security.md)"
        )
    if response["errorCode"]:
        raise ClusterError(_reason(response))


def _reason(response: Mapping[str, Any]) -> str:
    return response["errorMessage"] or str(KafkaError(response["errorCode"]).str())


def _version(calls: BrokerCalls, key: int) -> int:
    version = calls.version_of(key)
    if version is None:
        raise MutationQuotaError(
            "it is too old: client quotas require Kafka 2.6, and controller_mutation_rate requires 2.7"
        )
    return version
