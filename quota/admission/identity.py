"""Who a request is from, where its topic tells: `<topics.requests>.<user>`, which that user alone may write to."""

import re

from quota.errors import BadInput

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_MOST_CHARS = 249
"""Of a topic's name in Kafka."""


def topic_of(user: str, requests: str) -> str:
    """The topic that a user's requests go to.

    Raises:
        BadInput: no topic can have this name.
    """
    name = f"{requests}.{user}"
    if not _LEGAL.fullmatch(user) or len(name) > _MOST_CHARS:
        raise BadInput(
            f"user {user[:_MOST_CHARS]!r} cannot be part of a topic's name (topics.identity=topic): "
            "those are of ASCII letters, digits, '.', '_' and '-', "
            f"at most {_MOST_CHARS - len(requests) - 1} characters of them here; "
            "give principals shorter names (ssl.principal.mapping.rules), or let a gateway tell the user"
        )
    return name


def user_of(topic: str, requests: str) -> str | None:
    """The user whose topic this is; None where it is nobody's."""
    prefix, user = topic[: len(requests) + 1], topic[len(requests) + 1 :]
    return user if prefix == f"{requests}." and _LEGAL.fullmatch(user) else None


def pattern_of(requests: str) -> str:
    """All such topics, as a regular expression for the whole of a name (Python's and Java's)."""
    return f"^{re.escape(requests)}\\.{_LEGAL.pattern}$"
