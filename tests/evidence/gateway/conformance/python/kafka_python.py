"""Sends mutations, records and fetches by an old kafka-python, and writes its observations as lines of JSON.

It begins with Metadata v0 or v1, and authenticates by SaslHandshake v0. Arguments: PREFIX NAME ADDRESS FIRST_USER.
"""

from concurrent.futures import ThreadPoolExecutor

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from observing import WAIT_MS, login, mutations, now, seen_of, topic, write


def observe(case, step, send):
    sent = now()
    write(case, step, sent, *send())


def mutate(number, case, steps):
    """Send mutations, and list topics where a step has none."""
    admin = KafkaAdminClient(**login(number), request_timeout_ms=WAIT_MS)

    def sent(call):
        if call is None:
            return ("answered" if admin.list_topics() else "no topics"), None
        return seen_of(case, call(admin))

    for step, call in steps.items():
        observe(case, step, lambda call=call: sent(call))
    admin.close()


def records():
    def produced():
        producer = KafkaProducer(**login(2), retries=5)
        offset = producer.send(topic("data"), b"hello").get(60).offset
        producer.close()
        return f"offset {offset}", None

    def fetched():
        wanted = {"auto_offset_reset": "earliest", "consumer_timeout_ms": WAIT_MS}
        consumer = KafkaConsumer(topic("data"), **login(2), **wanted)
        value = next(consumer).value.decode()
        consumer.close()
        return value, None

    observe("records", "produce", produced)
    observe("records", "fetch", fetched)


with ThreadPoolExecutor() as pool:
    cases = [pool.submit(mutate, number, *case) for number, case in enumerate(mutations(NewTopic).items())]
    for case in [*cases, pool.submit(records)]:
        case.result()
