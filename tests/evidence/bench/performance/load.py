"""Sends requests at a steady rate, and measures the times until their answers are read; runs as a process.

Its argument is a JSON object: `servers`, the topics `requests` and `answers`, `name`, with which request ids begin,
`rate` (requests/s), `seconds` that count, seconds of load before them (`warm`), and `users`, whose requests come in
turn. Prints one JSON object: `sent`, `unanswered`, and `latencies_ms` of requests sent after the warm-up.
"""

import json
import sys
import threading
import time
from argparse import Namespace
from typing import Any

import msgspec
from confluent_kafka import Consumer, Producer, TopicPartition

from quota.settings import Settings
from tests.support.factories import request_json
from tests.support.topics import QUIET

USERS = 50
_TIMEOUT_SECONDS = 120.0


class _Answer(msgspec.Struct):
    request_id: str


_decode = msgspec.json.Decoder(_Answer).decode


def main() -> None:
    """Send requests, read answers, and print the latencies."""
    options = Namespace(**json.loads(sys.argv[1]))
    sent: dict[str, float] = {}
    answered: dict[str, float] = {}
    done, reading = threading.Event(), threading.Event()
    reader = threading.Thread(target=read, args=(options, answered, reading, done), daemon=True)
    reader.start()
    reading.wait(_TIMEOUT_SECONDS)
    send(options, sent, done)
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while len(answered) < len(sent) and time.monotonic() < deadline:
        time.sleep(0.05)
    done.set()
    reader.join()
    warm = int(options.rate * options.warm)
    counted = [name for name in sent if int(name.rpartition("-")[2]) >= warm]
    latencies = [(answered[name] - sent[name]) * 1000 for name in counted if name in answered]
    print(json.dumps({"sent": len(counted), "unanswered": len(sent) - len(answered), "latencies_ms": latencies}))


def options_of(settings: Settings, rate: float, seconds: float, warm: float) -> dict[str, Any]:
    """Return the options of a load on a deployment."""
    topics = settings.topics
    return {
        "servers": settings.kafka.bootstrap_servers,
        "requests": topics.requests,
        "answers": topics.decisions,
        "name": f"{topics.requests}-{rate:g}",
        "rate": rate,
        "seconds": seconds,
        "warm": warm,
        "users": USERS,
    }


def send(options: Namespace, sent: dict[str, float], done: threading.Event) -> None:
    """Send requests until `done` is set or all are sent; note when each was sent [s, monotonic]."""
    producer = Producer({**QUIET, "bootstrap.servers": options.servers, "linger.ms": 0})
    began = time.monotonic()
    for number in range(int(options.rate * (options.warm + options.seconds))):
        if done.is_set():
            break
        pause = began + number / options.rate - time.monotonic()
        if pause > 0:
            producer.poll(pause)
            time.sleep(max(began + number / options.rate - time.monotonic(), 0))
        user, name = f"user-{number % options.users}", f"{options.name}-{number}"
        value = request_json(1, user=user, request_id=name)
        sent[name] = time.monotonic()
        producer.produce(options.requests, value, user.encode())
    producer.flush(_TIMEOUT_SECONDS)


def read(options: Namespace, answered: dict[str, float], reading: threading.Event, done: threading.Event) -> None:
    """Read answers until `done` is set; note when each was read first [s, monotonic]. `reading` is set at the begin."""
    consumer = Consumer(
        {**QUIET, "bootstrap.servers": options.servers, "group.id": "bench", "enable.auto.commit": False}
    )
    partitions = consumer.list_topics(options.answers, _TIMEOUT_SECONDS).topics[options.answers].partitions
    places = [TopicPartition(options.answers, partition) for partition in partitions]
    for place in places:
        place.offset = consumer.get_watermark_offsets(place)[1]
    consumer.assign(places)
    reading.set()
    while not done.is_set():
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            answered.setdefault(_decode(message.value()).request_id, time.monotonic())
    consumer.close()


if __name__ == "__main__":
    main()
