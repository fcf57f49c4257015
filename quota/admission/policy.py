"""What the settings say about all requests."""

from dataclasses import dataclass

from quota.algorithms.deduplication import NO_DEDUPLICATION, Deduplication

DEFAULT_MAX_BYTES = 1024 * 1024
"""Key and value of the largest request, unless the settings say otherwise."""

DEFAULT_MAX_TOPICS = 10_000
DEFAULT_MAX_NAME_CHARS = 1024


@dataclass(frozen=True, slots=True)
class Policy:
    """What the settings say of all requests alike."""

    max_bytes: int = DEFAULT_MAX_BYTES
    """A larger record is a dead letter."""
    max_topics: int = DEFAULT_MAX_TOPICS
    """A request for more topics is a dead letter."""
    max_name_chars: int = DEFAULT_MAX_NAME_CHARS
    """A request with a longer user, client-id, request id or topic name is a dead letter."""
    exempt_users: frozenset[str] = frozenset()
    """Principals that are never throttled."""
    shadow: bool = False
    """Decide and report, but admit, whatever the quota."""
    repeats: Deduplication = NO_DEDUPLICATION
    """How long requests are remembered, so that they are not charged twice."""
    requests_of_users: str | None = None
    """What the topics of users are named after, where a request's topic tells its user (`quota.admission.identity`)."""
