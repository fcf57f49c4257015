"""Topics created and deleted, direct and through the gateway."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from time import monotonic, perf_counter

from quota.errors import MutationQuotaError
from quota.wire.api_keys import ApiKey
from tests.evidence.gateway.cost.decisions import Observer
from tests.evidence.gateway.cost.ground import Ground
from tests.support.wire_client import WireClient

SIZES = (1, 50)
"""Topics of a request, each of one partition."""

_CREATE_VERSION, _DELETE_VERSION, _METADATA_VERSION = 7, 6, 12
_LISTED_SECONDS = 60.0
_TIMEOUT_MS = 30_000
_WARM_UP = 3
_NO_ID = bytes(16)


@dataclass(frozen=True, slots=True)
class Mutation:
    """The times of a request for mutations, medians in seconds."""

    name: str
    direct: float
    through: float
    """Through the gateway, decision included."""
    decision: float
    """From the request in its topic to the decision in its topic."""
    rest: float
    """`through` without the decision: the work of the cluster and of the gateway."""
    cpu: float
    """Processor time of the gateway, on average."""

    @property
    def added(self) -> float:
        """The time that the gateway adds to the decision and to a direct request."""
        return self.rest - self.direct


def mutations(ground: Ground, observer: Observer, rounds: int) -> Iterator[Mutation]:
    """Yield the creates and the deletes of each size, direct and through the gateway in turns."""
    asked = itertools.count()
    for size in SIZES:
        runs: dict[str, list[_Run]] = {"create": [], "delete": []}
        with (
            ground.connect(ground.direct) as direct,
            ground.connect(ground.rewriting.port) as through,
        ):
            for number in range(rounds + _WARM_UP):
                for kind, call in (("create", _create), ("delete", _delete)):
                    plain = call(direct, f"direct-{size}-{number}", size)
                    cpu = ground.rewriting.cpu_seconds()
                    whole = call(through, f"through-{size}-{number}", size)
                    cpu = ground.rewriting.cpu_seconds() - cpu
                    runs[kind].append(_Run(plain, whole, observer.decision_seconds(next(asked)), cpu))
                    if kind == "create":
                        _wait_until_listed(direct, [f"{side}-{size}-{number}" for side in ("direct", "through")], size)
        for kind, found in runs.items():
            yield _mutation(f"{kind} {size}", found[_WARM_UP:])


@dataclass(frozen=True, slots=True)
class _Run:
    direct: float
    through: float
    decision: float
    cpu: float


def _mutation(name: str, runs: list[_Run]) -> Mutation:
    return Mutation(
        name,
        median(each.direct for each in runs),
        median(each.through for each in runs),
        median(each.decision for each in runs),
        median(each.through - each.decision for each in runs),
        sum(each.cpu for each in runs) / len(runs),
    )


def _create(client: WireClient, prefix: str, size: int) -> float:
    topics = [{"name": f"{prefix}-{number}", "numPartitions": 1, "replicationFactor": 1} for number in range(size)]
    return _timed(client, ApiKey.CREATE_TOPICS, _CREATE_VERSION, {"topics": topics, "timeoutMs": _TIMEOUT_MS})


def _delete(client: WireClient, prefix: str, size: int) -> float:
    topics = [{"name": f"{prefix}-{number}", "topicId": _NO_ID} for number in range(size)]
    return _timed(client, ApiKey.DELETE_TOPICS, _DELETE_VERSION, {"topics": topics, "timeoutMs": _TIMEOUT_MS})


def _wait_until_listed(client: WireClient, prefixes: list[str], size: int) -> None:
    """Wait until the broker lists what was created, so that deletes find it as on a quiet cluster."""
    topics = [{"name": f"{each}-{number}", "topicId": _NO_ID} for each in prefixes for number in range(size)]
    deadline = monotonic() + _LISTED_SECONDS
    while any(
        each["errorCode"] for each in client.call(ApiKey.METADATA, _METADATA_VERSION, {"topics": topics})["topics"]
    ):
        if monotonic() > deadline:
            raise MutationQuotaError("the broker does not list the topics that were created")


def _timed(client: WireClient, key: ApiKey, version: int, message: dict) -> float:
    begun = perf_counter()
    answer = client.call(key, version, message)
    took = perf_counter() - begun
    failed = [each for each in answer.get("topics", answer.get("responses")) if each["errorCode"]]
    if failed:
        raise MutationQuotaError(f"{key.name}: {failed[0]}")
    return took
