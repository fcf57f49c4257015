"""Metadata requests, which must not create the topics that they name, in any version.

A broker creates them if `auto.create.topics.enable` is set, and nobody would be charged. From version 4 on a request
says whether it may; before, each may.
"""

from quota.wire.api_keys import ApiKey
from quota.wire.codec import Message
from quota.wire.protocol import Protocol

FIRST_VERSION = 4
"""The first version that can ask for topics without creating them."""


def may_create(version: int, request: Message) -> bool:
    """Return whether a broker may create topics for a request.

    No names mean all topics or, from version 1 on, none; none are created for such a request.
    """
    return bool(request["topics"]) and (version < FIRST_VERSION or request["allowAutoTopicCreation"])


def in_version(protocol: Protocol, version: int, body: bytes) -> bytes:
    """Return a response of `FIRST_VERSION` in an earlier version."""
    response, wanted = protocol.response(ApiKey.METADATA, FIRST_VERSION), protocol.response(ApiKey.METADATA, version)
    if not version:  # its topics have one field less
        return wanted.write(response.read(body, max_elements=len(body)))
    head, end = response.read_head(body, "controllerId")
    return wanted.write_head(head, "controllerId") + body[end:]
