"""The users' own request topics, `<topics.requests>.<user>`: only that user may write to it, so it names the user."""

import re

from quota.errors import BadInput
from quota.settings.sections import TopicSettings
from quota.text import MAX_TOPIC_CHARS, TOPIC_CHARS

_LEGAL = re.compile(TOPIC_CHARS)


def request_topic(user: str, topics: TopicSettings) -> str:
    """Return the topic of a user's requests: their own, or that of all users."""
    prefix = topics.user_topic_prefix
    if prefix is None:
        return topics.requests
    name = f"{prefix}.{user}"
    if not _LEGAL.fullmatch(user) or len(name) > MAX_TOPIC_CHARS:
        raise BadInput(
            f"user {user[:MAX_TOPIC_CHARS]!r} cannot be part of a topic's name (topics.identity=topic): use ASCII "
            f"letters, digits, '.', '_' and '-', at most {MAX_TOPIC_CHARS - len(prefix) - 1} characters; shorten "
            "principals with ssl.principal.mapping.rules, or use a gateway"
        )
    return name


def user_of(topic: str, requests: str) -> str | None:
    """Return the user to whom a topic belongs; None if it is not a user's topic."""
    prefix, user = topic[: len(requests) + 1], topic[len(requests) + 1 :]
    return user if prefix == f"{requests}." and _LEGAL.fullmatch(user) else None


def pattern_of(requests: str) -> str:
    """Return a regular expression (Python's and Java's) that matches the whole names of all such topics."""
    return f"^{re.escape(requests)}\\.{_LEGAL.pattern}$"
