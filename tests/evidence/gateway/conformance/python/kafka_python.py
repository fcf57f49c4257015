"""Sends mutations, records and fetches by an old kafka-python, and writes its observations as lines of JSON.

It begins with Metadata v0 or v1, and authenticates by SaslHandshake v0. Arguments: PREFIX NAME ADDRESS FIRST_USER.
"""

import json
from concurrent.futures import ThreadPoolExecutor

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from observing import WAIT_MS, login, now, topic, write


def observe(case, step, send):
    sent = now()
    write(case, step, sent, *send())


def mutations(number, case, steps):
    """Send mutations, and list topics where a step has none."""
    admin = KafkaAdminClient(**login(number), request_timeout_ms=WAIT_MS)

    def sent(mutate):
        if mutate is None:
            return ("answered" if admin.list_topics() else "no topics"), None
        answer = mutate(admin)
        errors = answer.topic_errors if case == "create" else answer.topic_error_codes
        return json.dumps(errors), answer.throttle_time_ms

    for step, mutate in {"connect": None, **steps}.items():
        observe(case, step, lambda mutate=mutate: sent(mutate))
    admin.close()


def creations():
    steps = {
        "overdrawn by 8": lambda admin: admin.create_topics([NewTopic(topic("a"), 11, 1)]),
        "in debt": lambda admin: admin.create_topics([NewTopic(topic("b"), 1, 1)]),
        "another call of this client": None,
    }
    mutations(0, "create", steps)


def deletions():
    steps = {
        "overdrawn by 8": lambda admin: admin.delete_topics([topic("deleted-a")]),
        "in debt": lambda admin: admin.delete_topics([topic("deleted-b")]),
    }
    mutations(1, "delete", steps)


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
    for case in [pool.submit(play) for play in (creations, deletions, records)]:
        case.result()
