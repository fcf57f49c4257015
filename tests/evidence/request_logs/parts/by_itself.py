"""Topics that a cluster creates by itself: for a producer, and internal ones."""

from confluent_kafka import Consumer, Producer

from tests.evidence.request_logs.stage import Stage, principal_of

_SECONDS = 60
AUTOMATIC, INTERNAL = "AUTOMATIC", "INTERNAL"
"""What the record has as the operation of such topics."""


def automatic(stage: Stage, user: str | None = None) -> None:
    """Produce to a topic that does not exist, so that the cluster creates it."""
    producer = Producer(stage.librdkafka_config("auto-producer", user))

    def produce() -> None:
        producer.produce("auto.created", b"x")
        producer.flush(_SECONDS)

    stage.drive.appeared(AUTOMATIC, ["auto.created"], produce, principal=principal_of(user), client_id="auto-producer")


def internal(stage: Stage, user: str | None = None) -> None:
    """Consume in a group and begin transactions, for each of which the cluster creates an internal topic."""
    group = {"group.id": "group", "auto.offset.reset": "earliest"}
    consumer = Consumer({**stage.librdkafka_config("group-consumer", user), **group})

    def consume() -> None:
        consumer.subscribe(["auto.created"])
        assert consumer.poll(_SECONDS) is not None

    stage.drive.appeared(
        INTERNAL, ["__consumer_offsets"], consume, principal=principal_of(user), client_id="group-consumer"
    )
    consumer.close()
    transactional = {"transactional.id": "transaction"}
    producer = Producer({**stage.librdkafka_config("transactional-producer", user), **transactional})

    def begin() -> None:
        producer.init_transactions(_SECONDS)

    stage.drive.appeared(
        INTERNAL, ["__transaction_state"], begin, principal=principal_of(user), client_id="transactional-producer"
    )
