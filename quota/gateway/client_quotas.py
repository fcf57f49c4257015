"""Kafka's requests for client quotas (KIP-546): `controller_mutation_rate` is in the quota log, others on the brokers.

The brokers receive each request first, on the client's own connection: they check its permission, its entities and its
values, and their errors are the client's. A rate that is altered is removed from the brokers, which would charge the
same mutations a second time.
"""

import math
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from quota.errors import ErrorCode
from quota.gateway.operations import BrokerCall, MutationResponse
from quota.gateway.stats import GatewayStats
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QUOTA_CONFIGS, RATE_CONFIG
from quota.wire.message_codec import Message
from quota.wire.protocol import ApiKey

_OPTIONS = QUOTA_CONFIGS.keys() - {RATE_CONFIG}
"""The configs that only this project has. Brokers reject their values, and accept and ignore that one is removed."""
_ANY_NAME = 2
"""The match type of a filter's component that matches every name and the default."""


@dataclass(frozen=True, slots=True)
class RatesCall:
    """Access to the rates in the quota log: they are changed, or read if nothing changes."""

    changes: Mapping[QuotaEntity, float | None] = field(default_factory=dict)
    """The new rates [mutations/s] by entity; None to remove one."""
    author: str = ""


@dataclass(frozen=True, slots=True)
class RatesReply:
    """The rates in force by entity [mutations/s] if they were read, or the reason why the log cannot be used."""

    rates: Mapping[QuotaEntity, float] = field(default_factory=dict)
    error: str = ""


Steps = Generator[BrokerCall | RatesCall, Any, MutationResponse]
"""The steps of a request: a `BrokerCall` is sent its response message, a `RatesCall` its `RatesReply`."""


def alters_rates(message: Message) -> bool:
    """Return whether an AlterClientQuotas request alters a rate, or tries to alter another config of its quota."""
    return any(op["key"] in QUOTA_CONFIGS for entry in message["entries"] for op in entry["ops"])


def describe_quotas(version: int, message: Message, stats: GatewayStats) -> Steps:
    """Describe the brokers' quotas and the rates of the log; where both have a rate, the log's is described."""
    response = yield BrokerCall(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, message)
    if response["errorCode"]:
        return MutationResponse(response)
    reply: RatesReply = yield RatesCall()
    if reply.error:
        sentence = f"{RATE_CONFIG} is in the quota log, which cannot be read: {reply.error}"
        failed = {"errorCode": int(ErrorCode.REQUEST_TIMED_OUT), "errorMessage": sentence, "entries": None}
        return MutationResponse({**response, **failed})
    rates = {entity: rate for entity, rate in reply.rates.items() if _matches(entity, message)}
    entries = []
    for entry in response["entries"]:
        entity = QuotaEntity.from_parts(entry["entity"])
        values = entry["values"]
        if entity is not None and any(value["key"] == RATE_CONFIG for value in values):
            stats.add_brokers_rate(entity)
        if entity in rates:
            values = [value for value in values if value["key"] != RATE_CONFIG]
            values.append({"key": RATE_CONFIG, "value": rates.pop(entity)})
        entries.append({"entity": entry["entity"], "values": values})
    entries += [
        {"entity": entity.parts, "values": [{"key": RATE_CONFIG, "value": rate}]} for entity, rate in rates.items()
    ]
    return MutationResponse({**response, "entries": entries})


def alter_quotas(version: int, message: Message, user: str) -> Steps:
    """Have the brokers validate the request, alter the rates in the log, and have the brokers alter the rest.

    As on a broker, each entity succeeds or fails as a whole. If an entity is named twice, nothing of it is altered.
    """
    entries = message["entries"]
    response = yield BrokerCall(ApiKey.ALTER_CLIENT_QUOTAS, version, {**message, "validateOnly": True})
    results = {_names(result): result for result in response["entries"]}
    changes: dict[QuotaEntity, float | None] = {}
    for entry in _accepted(entries, results):
        entity = QuotaEntity.from_parts(entry["entity"])
        values = {op["key"]: None if op["remove"] else op["value"] for op in entry["ops"]}
        if options := sorted(_OPTIONS & values.keys()):
            sentence = f"{', '.join(options)} can be altered only by mutation-quota quotas alter"
            _fail(results, entry, ErrorCode.INVALID_REQUEST, sentence)
        elif not math.isfinite(values.get(RATE_CONFIG) or 0):  # brokers before Kafka 4.4 would admit everything
            _fail(results, entry, ErrorCode.INVALID_REQUEST, f"Quota {RATE_CONFIG} must be a finite number")
        elif entity is not None and RATE_CONFIG in values:
            changes[entity] = values[RATE_CONFIG]
    throttle_ms = response["throttleTimeMs"]
    if not message["validateOnly"]:
        if changes:
            reply: RatesReply = yield RatesCall(changes, user)
            sentence = f"{RATE_CONFIG} is in the quota log, which may not have changed: {reply.error}; retry"
            for entry in _accepted(entries, results) if reply.error else ():
                if QuotaEntity.from_parts(entry["entity"]) in changes:
                    _fail(results, entry, ErrorCode.REQUEST_TIMED_OUT, sentence)
        left = [{**entry, "ops": [_without_rate(op) for op in entry["ops"]]} for entry in _accepted(entries, results)]
        if left:
            response = yield BrokerCall(ApiKey.ALTER_CLIENT_QUOTAS, version, {**message, "entries": left})
            results |= {_names(result): result for result in response["entries"]}
            throttle_ms = max(throttle_ms, response["throttleTimeMs"])
    return MutationResponse({"throttleTimeMs": throttle_ms, "entries": list(results.values())})


_Names = frozenset[tuple[str, str | None]]
_Results = dict[_Names, Message]


def _names(entry: Message) -> _Names:
    """Return the types and names of an entity, by which a result belongs to an entry; of a repeated type the last."""
    return frozenset({part["entityType"]: part["entityName"] for part in entry["entity"]}.items())


def _accepted(entries: Iterable[Message], results: _Results) -> list[Message]:
    return [entry for entry in entries if not results[_names(entry)]["errorCode"]]


def _fail(results: _Results, entry: Message, error: ErrorCode, message: str) -> None:
    results[_names(entry)] = {"errorCode": int(error), "errorMessage": message, "entity": entry["entity"]}


def _without_rate(op: Message) -> Message:
    """Return what brokers are to do: remove a rate, and otherwise what the client wants."""
    return {**op, "value": 0.0, "remove": True} if op["key"] == RATE_CONFIG else op


def _matches(entity: QuotaEntity, request: Message) -> bool:
    """Return whether an entity matches the filter of a request that a broker has accepted."""
    names = dict(_names({"entity": entity.parts}))
    components = request["components"]
    if request["strict"] and len(components) != len(names):
        return False
    return all(
        component["entityType"] in names
        and (component["matchType"] == _ANY_NAME or component["match"] == names[component["entityType"]])
        for component in components
    )
