"""Sends mutations, records and fetches by aiokafka, and writes its observations as lines of JSON.

It begins with ApiVersions v0 and Metadata v0 at once, and authenticates by SaslHandshake v0.
Arguments: PREFIX NAME ADDRESS FIRST_USER.
"""

import asyncio

import observing
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from observing import WAIT_MS, mutations, now, seen_of, topic, write


def login(number):
    return {**observing.login(number), "request_timeout_ms": WAIT_MS}


async def observe(case, step, send):
    sent = now()
    write(case, step, sent, *await send())


async def mutate(number, case, steps):
    """Send mutations, and list topics where a step has none."""
    admin = AIOKafkaAdminClient(**login(number))
    await admin.start()

    async def sent(call):
        if call is None:
            return ("answered" if await admin.list_topics() else "no topics"), None
        return seen_of(case, await call(admin))

    for step, call in steps.items():
        await observe(case, step, lambda call=call: sent(call))
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
    cases = [mutate(number, *case) for number, case in enumerate(mutations(NewTopic).items())]
    await asyncio.gather(*cases, records())


asyncio.run(main())
