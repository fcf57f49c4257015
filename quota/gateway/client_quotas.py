"""Kafka's requests for client quotas (KIP-546): those of mutations are in the quota log, others on the brokers.

The brokers receive each request first, on the client's own connection: they check its permission, its entities and its
values, and their errors are the client's. A rate that is altered is removed from the brokers, which would charge the
same mutations a second time. What they receive lacks `max_request_mutations`, which they do not know.
"""

import math
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from quota.errors import ErrorCode
from quota.gateway.operations import BrokerCall, MutationResponse
from quota.gateway.stats import GatewayStats
from quota.records.entity import QuotaEntity
from quota.records.quota_log import KAFKA_CONFIGS, LIMIT_CONFIG, RATE_CONFIG
from quota.wire.message_codec import Message
from quota.wire.protocol import ApiKey

_MAX_LIMIT = 2**31 - 1
_EXPECTED = {RATE_CONFIG: "a finite number", LIMIT_CONFIG: f"a whole number from 1 to {_MAX_LIMIT}"}
"""The values of the configs that are in the quota log."""
_ANY_NAME = 2
"""The match type of a filter's component that matches every name and the default."""


@dataclass(frozen=True, slots=True)
class QuotasCall:
    """Access to the quotas in the log: they are changed, or read if nothing changes."""

    changes: Mapping[QuotaEntity, Mapping[str, float | None]] = field(default_factory=dict)
    """The new values of the configs by their names, by entity; None to remove one."""
    author: str = ""


@dataclass(frozen=True, slots=True)
class QuotasReply:
    """The quotas in force if they were read, or the reason why the log cannot be used."""

    quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    """The values of their configs by name, by entity."""
    error: str = ""


Steps = Generator[BrokerCall | QuotasCall, Any, MutationResponse]
"""The steps of a request: a `BrokerCall` is sent its response message, a `QuotasCall` its `QuotasReply`."""


def alters_quotas(message: Message) -> bool:
    """Return whether an AlterClientQuotas request alters a quota in the log."""
    return any(op["key"] in KAFKA_CONFIGS for entry in message["entries"] for op in entry["ops"])


def describe_quotas(version: int, message: Message, stats: GatewayStats) -> Steps:
    """Describe the brokers' quotas and those of the log; where both have a rate, the log's is described."""
    response = yield BrokerCall(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, message)
    if response["errorCode"]:
        return MutationResponse(response)
    reply: QuotasReply = yield QuotasCall()
    if reply.error:
        sentence = f"{RATE_CONFIG} is in the quota log, which cannot be read: {reply.error}"
        failed = {"errorCode": int(ErrorCode.REQUEST_TIMED_OUT), "errorMessage": sentence, "entries": None}
        return MutationResponse({**response, **failed})
    logged = {entity: configs for entity, configs in reply.quotas.items() if _matches(entity, message)}
    entries = []
    for entry in response["entries"]:
        entity = QuotaEntity.from_parts(entry["entity"])
        values = entry["values"]
        if entity is not None and any(value["key"] == RATE_CONFIG for value in values):
            stats.add_brokers_rate(entity)
        if entity in logged:
            values = [value for value in values if value["key"] != RATE_CONFIG] + _values(logged.pop(entity))
        entries.append({"entity": entry["entity"], "values": values})
    entries += [{"entity": entity.parts, "values": _values(configs)} for entity, configs in logged.items()]
    return MutationResponse({**response, "entries": entries})


def alter_quotas(version: int, message: Message, user: str) -> Steps:
    """Have the brokers validate the request, alter the quotas in the log, and have the brokers alter the rest.

    As on a broker, each entity succeeds or fails as a whole. If an entity is named twice, nothing of it is altered.
    """
    entries = message["entries"]
    checked = {**message, "validateOnly": True, "entries": [_without_limit(entry) for entry in entries]}
    response = yield BrokerCall(ApiKey.ALTER_CLIENT_QUOTAS, version, checked)
    results = {_names(result): result for result in response["entries"]}
    changes = yield from _valid_changes(entries, results)
    throttle_ms = response["throttleTimeMs"]
    if not message["validateOnly"]:
        if changes:
            reply: QuotasReply = yield QuotasCall(changes, user)
            sentence = f"{RATE_CONFIG} is in the quota log, which may not have changed: {reply.error}; retry"
            for entry in _accepted(entries, results) if reply.error else ():
                if QuotaEntity.from_parts(entry["entity"]) in changes:
                    _fail(results, entry, ErrorCode.REQUEST_TIMED_OUT, sentence)
        left = [_for_brokers(entry) for entry in _accepted(entries, results)]
        if left:
            response = yield BrokerCall(ApiKey.ALTER_CLIENT_QUOTAS, version, {**message, "entries": left})
            results |= {_names(result): result for result in response["entries"]}
            throttle_ms = max(throttle_ms, response["throttleTimeMs"])
    return MutationResponse({"throttleTimeMs": throttle_ms, "entries": list(results.values())})


_Names = frozenset[tuple[str, str | None]]
_Results = dict[_Names, Message]
_Changes = dict[QuotaEntity, dict[str, float | None]]


def _valid_changes(entries: Iterable[Message], results: _Results) -> Generator[QuotasCall, QuotasReply, _Changes]:
    """Return the changes of the log by the entities that the brokers accept; those with invalid ones fail."""
    changes: _Changes = {}
    without_rate = []
    for entry in _accepted(entries, results):
        entity = QuotaEntity.from_parts(entry["entity"])
        ops = [op for op in entry["ops"] if op["key"] in KAFKA_CONFIGS] if entity else []
        wrong = next((op["key"] for op in ops if not (op["remove"] or _is_valid(op["key"], op["value"]))), None)
        if wrong is not None:
            _fail(results, entry, ErrorCode.INVALID_REQUEST, f"Quota {wrong} must be {_EXPECTED[wrong]}")
        elif entity is not None and ops:
            changes[entity] = configs = {op["key"]: None if op["remove"] else op["value"] for op in ops}
            if configs.get(LIMIT_CONFIG) and not configs.get(RATE_CONFIG):
                without_rate.append((entity, entry))
    known = (yield QuotasCall()) if without_rate else QuotasReply()
    code, sentence = ErrorCode.INVALID_REQUEST, f"{LIMIT_CONFIG} cannot be set without {RATE_CONFIG}"
    if known.error:
        code, sentence = ErrorCode.REQUEST_TIMED_OUT, f"the quota log cannot be read: {known.error}"
    for entity, entry in without_rate:
        if RATE_CONFIG in changes[entity] or entity not in known.quotas:
            del changes[entity]
            _fail(results, entry, code, sentence)
    return changes


def _names(entry: Message) -> _Names:
    """Return the types and names of an entity, by which a result belongs to an entry; of a repeated type the last."""
    return frozenset({part["entityType"]: part["entityName"] for part in entry["entity"]}.items())


def _accepted(entries: Iterable[Message], results: _Results) -> list[Message]:
    return [entry for entry in entries if not results[_names(entry)]["errorCode"]]


def _fail(results: _Results, entry: Message, error: ErrorCode, message: str) -> None:
    results[_names(entry)] = {"errorCode": int(error), "errorMessage": message, "entity": entry["entity"]}


def _values(configs: Mapping[str, float]) -> list[Message]:
    return [{"key": name, "value": value} for name, value in configs.items()]


def _is_valid(config: str, value: float) -> bool:
    """Return whether a value that is greater than 0 can be set; brokers before Kafka 4.4 accept infinite rates."""
    return math.isfinite(value) and (config == RATE_CONFIG or (value.is_integer() and 1 <= value <= _MAX_LIMIT))


def _without_limit(entry: Message) -> Message:
    """Return what brokers are to validate: they know no limit, and say so for what has no mutations."""
    if QuotaEntity.from_parts(entry["entity"]) is None:
        return entry
    return {**entry, "ops": [op for op in entry["ops"] if op["key"] != LIMIT_CONFIG]}


def _for_brokers(entry: Message) -> Message:
    """Return what brokers are to do: remove a rate, and otherwise what the client wants."""
    ops = _without_limit(entry)["ops"]
    return {
        **entry,
        "ops": [{**op, "value": 0.0, "remove": True} if op["key"] == RATE_CONFIG else op for op in ops],
    }


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
