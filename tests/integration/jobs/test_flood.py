"""A flood of invalid records next to valid requests."""

from confluent_kafka import Producer

from jobs.enforce.query import start_enforce
from jobs.storage.run import Run
from quota.kafka.topics.preparation import prepare_topics
from tests.support.clients import QUIET
from tests.support.factories import request_json
from tests.support.flood.answered import answered
from tests.support.flood.invalid import SMALL, Pour, pour

FLOODS = {
    "small": Pour(SMALL, 4000),
    "keys and values": Pour(("huge keys", "100 KB"), 100),
    "megabytes": Pour(("1 MB of text", "1 MB of zeros", "over the limit"), 30),
    "compressed": Pour(("1 MB of text",), 30, compression="zstd"),
}


def send_good(settings, first, count):
    """Send requests, and return their positions."""
    places = set()
    producer = Producer({**QUIET, "bootstrap.servers": settings.kafka.bootstrap_servers})
    for number in range(first, first + count):
        producer.produce(
            settings.topics.requests,
            request_json(1, request_id=f"good-{number}"),
            b"alice",
            on_delivery=lambda _, message: places.add((message.partition(), message.offset())),
        )
    assert producer.flush(30) == 0
    return places


def test_a_flood_of_invalid_records_loses_and_duplicates_nothing(spark, deployment):
    """Valid requests before, between and after each kind are decided, and each invalid record is a dead letter."""
    prepare_topics(deployment)
    good, bad = send_good(deployment, 0, 10), 0
    for number, flood in enumerate(FLOODS.values(), start=1):
        pour(deployment.kafka.bootstrap_servers, deployment.topics.requests, flood)
        bad += flood.count
        good |= send_good(deployment, 10 * number, 10)
    query = start_enforce(Run.on(spark, deployment), once=True)
    assert query.awaitTermination(240)
    assert query.exception() is None

    found = answered(deployment, good)
    assert found.is_sound, found
    assert (found.decided, found.dead) == (len(good), bad) == (50, 4160)
