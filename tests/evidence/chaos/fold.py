"""The buckets worked out anew from the logs of requests and quotas alone, for these users: no code of the project's."""

import json
from dataclasses import dataclass

WINDOW = 11
"""Seconds of its quota that a bucket holds: Kafka's defaults, 11 windows of 1 s."""

ROUNDING = 1e-9
"""A debt this small is none."""

STRICT_SINCE = {"CREATE_TOPICS": 6, "CREATE_PARTITIONS": 3, "DELETE_TOPICS": 5}


@dataclass(frozen=True, slots=True)
class Expected:
    """What a decision must say: the tokens, null without a quota, and which topics are admitted."""

    tokens_before: float | None
    tokens: float | None
    admitted: tuple[bool, ...]


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: int
    rate: float


def expected_decisions(requests, quotas):
    """By place, what each request of its log must be answered; those that are none have no place in it.

    Args:
        requests: the records of the request topic; each user's are of one partition.
        quotas: those of the quota topic, of users and the default user.
    """
    changes = [(each.timestamp, json.loads(each.value)) for each in quotas]
    by_user = {}
    for each in sorted(requests, key=lambda each: each.place):
        request = _request(each)
        if request is not None:
            by_user.setdefault(request["user"], []).append((each, request))
    found = {}
    for user, asked in by_user.items():
        assert len({each.partition for each, _ in asked}) == 1, f"{user} is on several partitions"
        found |= _decided(asked, _rates(user, changes))
    return found


def _request(stored):
    try:
        found = json.loads(stored.value or b"")
    except ValueError:
        return None
    return found if "request_id" in found else None


def _rates(user, changes):
    """The rate of a user as it changes: moment and rate, in order."""
    held, rates = {}, [(-1, None)]
    for moment, change in changes:
        held[change["entity"]["user"]] = change["controller_mutation_rate"]
        rate = held.get(user) or held.get(None)
        if rate != rates[-1][1]:
            rates.append((moment, rate))
    return rates


def _decided(asked, rates):
    bucket, found = None, {}
    for stored, request in asked:
        now = stored.timestamp
        since, rate = [each for each in rates if each[0] <= now][-1]
        costs = [topic["partitions"] for topic in request["topics"]]
        if rate is None:
            found[stored.place] = Expected(None, None, (True,) * len(costs))
            continue
        before = _filled(bucket, now, rate, since)
        validate_only = request.get("validate_only", False)
        strict = request["api_version"] >= STRICT_SINCE[request["operation"]] and not validate_only
        tokens, admitted = before, []
        for cost in costs:
            admitted.append(not strict or tokens >= -ROUNDING)
            tokens -= cost if admitted[-1] and not validate_only else 0
        found[stored.place] = Expected(before, tokens, tuple(admitted))
        if not validate_only:
            bucket = _Bucket(tokens, now, rate)
    return found


def _filled(bucket, now, rate, since):
    """The tokens at `now`: gained at the rate of the last use until the present one took effect."""
    if bucket is None:
        return rate * WINDOW
    changed = now if bucket.rate == rate else min(max(since, bucket.at), now)
    tokens = min(bucket.tokens + (changed - bucket.at) / 1000 * bucket.rate, bucket.rate * WINDOW)
    return min(tokens + (now - changed) / 1000 * rate, rate * WINDOW)
