"""Sends mutations, records and fetches by aiokafka, and writes its observations as lines of JSON.

It begins with ApiVersions v0 and Metadata v0 at once, and authenticates by SaslHandshake v0.
Arguments: PREFIX NAME ADDRESS FIRST_USER.
"""

import asyncio
import json
import sys
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

PREFIX, SIDE, ADDRESS, FIRST_USER = *sys.argv[1:4], int(sys.argv[4])
WAIT_MS = 60_000


def topic(name):
    return f"{SIDE}-{PREFIX}-{name}"


def login(number):
    user = f"{SIDE}-{FIRST_USER + number:03}"
    return {
        "bootstrap_servers": ADDRESS,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": f"{user}-secret",
        "request_timeout_ms": WAIT_MS,
    }


async def observe(case, step, send):
    sent = time.monotonic()
    seen, throttle_ms = await send()
    times = {"sent": sent * 1000, "received": time.monotonic() * 1000}
    print(json.dumps({"case": case, "step": step, "seen": seen, "throttle_ms": throttle_ms, **times}))


async def mutate(number, case, first, second):
    admin = AIOKafkaAdminClient(**login(number))
    await admin.start()

    async def listed():
        return ("answered" if await admin.list_topics() else "no topics"), None

    async def created(name, partitions):
        answer = await admin.create_topics([NewTopic(topic(name), partitions, 1)])
        return json.dumps(answer.topic_errors), answer.throttle_time_ms

    async def deleted(name, _):
        answer = await admin.delete_topics([topic(name)])
        return json.dumps(answer.topic_error_codes), answer.throttle_time_ms

    mutated = created if case == "create" else deleted
    await observe(case, "connect", listed)
    await observe(case, "overdrawn by 8", lambda: mutated(first, 11))
    await observe(case, "in debt", lambda: mutated(second, 1))
    await observe(case, "another call of this client", listed)
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
    await asyncio.gather(mutate(0, "create", "a", "b"), mutate(1, "delete", "deleted-a", "deleted-b"), records())


asyncio.run(main())
