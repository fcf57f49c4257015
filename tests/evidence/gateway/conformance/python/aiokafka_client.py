"""Sends mutations, records and fetches by aiokafka, and writes its observations as lines of JSON.

It begins with ApiVersions v0 and Metadata v0 at once, and authenticates by SaslHandshake v0.
Arguments: PREFIX NAME ADDRESS FIRST_USER.
"""

import asyncio
import json

import observing
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from observing import WAIT_MS, now, topic, write


def login(number):
    return {**observing.login(number), "request_timeout_ms": WAIT_MS}


async def observe(case, step, send):
    sent = now()
    write(case, step, sent, *await send())


async def mutations(number, case, steps):
    """Send mutations, and list topics where a step has none."""
    admin = AIOKafkaAdminClient(**login(number))
    await admin.start()

    async def sent(mutate):
        if mutate is None:
            return ("answered" if await admin.list_topics() else "no topics"), None
        answer = await mutate(admin)
        errors = answer.topic_errors if case == "create" else answer.topic_error_codes
        return json.dumps(errors), answer.throttle_time_ms

    for step, mutate in {"connect": None, **steps}.items():
        await observe(case, step, lambda mutate=mutate: sent(mutate))
    await admin.close()


async def records():
    async def produced():
        async with AIOKafkaProducer(**login(2)) as producer:
            return f"offset {(await producer.send_and_wait(topic('data'), b'hello')).offset}", None

    async def fetched():
        async with AIOKafkaConsumer(topic("data"), **login(2), auto_offset_reset="earliest") as consumer:
            return (await asyncio.wait_for(consumer.getone(), WAIT_MS / 1000)).value.decode(), None

    await observe("records", "produce", produced)
    await observe("records", "fetch", fetched)


async def main():
    creations = {
        "overdrawn by 8": lambda admin: admin.create_topics([NewTopic(topic("a"), 11, 1)]),
        "in debt": lambda admin: admin.create_topics([NewTopic(topic("b"), 1, 1)]),
        "another call of this client": None,
    }
    deletions = {
        "overdrawn by 8": lambda admin: admin.delete_topics([topic("deleted-a")]),
        "in debt": lambda admin: admin.delete_topics([topic("deleted-b")]),
    }
    await asyncio.gather(mutations(0, "create", creations), mutations(1, "delete", deletions), records())


asyncio.run(main())
