"""The decisions that the reference model expects of a deployment's logs, read by JSON's own module."""

import json

from quota.records.quota import Window
from tests.support.reference.log import ABSENT, Change, Entry, Log
from tests.support.reference.model import Reference

_WINDOW = Window(num=11, size_seconds=1)
"""Kafka's default."""


def expected_decisions(requests, quotas):
    """Return the expected decision of each request by its position; invalid records have none."""
    changes = sorted((_change(each) for each in quotas), key=lambda change: change.moment)
    entries = {
        each.position: Entry(each.partition, each.timestamp, _request(each))
        for each in sorted(requests, key=lambda each: each.position)
    }
    partitions = {}
    for entry in entries.values():
        if entry.request is not None:
            user = entry.request["user"]
            assert partitions.setdefault(user, entry.partition) == entry.partition, f"{user} is in several partitions"
    reference = Reference(Log(_WINDOW, list(entries.values()), changes))
    return {
        (partition, offset): reference.decide(entry, offset)
        for (partition, offset), entry in entries.items()
        if entry.request is not None
    }


def _request(stored):
    try:
        found = json.loads(stored.value or b"")
    except ValueError:
        return None
    return found if "request_id" in found else None


def _change(stored):
    found = json.loads(stored.value)
    return Change((found["entity"]["user"], ABSENT), found["controller_mutation_rate"], None, stored.timestamp)
