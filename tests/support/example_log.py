"""Writes the request log that the package ships as an example: `python -m tests.support.example_log`.

A day of five tenants: two services that create a topic now and then, a test suite that creates and deletes some during
working hours, a nightly batch of 480 topics, and at 14:20 a loop that creates 200 times 60 partitions.
"""

import gzip
import random
from datetime import datetime, timedelta
from itertools import count

from jobs.observe.importing import EXAMPLE
from tests.support.request_log import created, deleted, fetched

_DAY = datetime(2026, 11, 17)  # noqa: DTZ001 the times of a log have no zone
_HOUR, _MINUTE = 3600, 60
_SEED = 599


def example_lines():
    """Return the lines, ordered by time."""
    chance, numbers = random.Random(_SEED), count(1)
    lines = []

    def add(at, write, user, client_id, *args):
        time = f"{_DAY + timedelta(seconds=at):%Y-%m-%d %H:%M:%S},{chance.randrange(1000):03}"
        known = {"principal": f"User:{user}", "client_id": client_id, "correlation_id": next(numbers)}
        lines.append((at, write(time, *args, **known)))

    for user, client_id, pause, topics, partitions in (
        ("orders", "order-service", 40 * _MINUTE, 1, 3),
        ("payments", "ledger", 2 * _HOUR, 2, 6),
    ):
        at = chance.expovariate(1 / pause)
        while at < 24 * _HOUR:
            names = [f"{user}-{next(numbers)}" for _ in range(topics)]
            add(at, created, user, client_id, *((name, partitions) for name in names))
            at += chance.expovariate(1 / pause)
    for at in range(8 * _HOUR, 18 * _HOUR, 6 * _MINUTE):
        names = [f"test-{next(numbers)}" for _ in range(4)]
        add(at, created, "ci", "test-suite", *((name, 6) for name in names))
        add(at + 3 * _MINUTE, deleted, "ci", "test-suite", *names)
    for batch in range(40):
        names = [f"staging-{batch}-{number}" for number in range(12)]
        add(2 * _HOUR + 10 * batch, created, "etl", "nightly-batch", *((name, 8) for name in names))
        add(5 * _HOUR + 10 * batch, deleted, "etl", "nightly-batch", *names)
    for turn in range(200):
        names = [f"loop-{turn}-{number}" for number in range(3)]
        add(14 * _HOUR + 20 * _MINUTE + 2 * turn, created, "rogue", "loop", *((name, 20) for name in names))
    lines += [(hour * _HOUR, fetched(f"{_DAY + timedelta(hours=hour):%Y-%m-%d %H:%M:%S},000")) for hour in range(24)]
    return [line for _, line in sorted(lines, key=lambda entry: entry[0])]


if __name__ == "__main__":
    EXAMPLE.write_bytes(gzip.compress(b"".join(example_lines()), mtime=0))
