"""The policy of a deployment: the settings that apply to all requests."""

from dataclasses import dataclass
from typing import Self

from quota.algorithms.deduplication import NO_DEDUPLICATION, Deduplication
from quota.settings import Settings

MAX_REQUEST_RECORD_BYTES = 1024 * 1024
"""The maximum size of a request, key and value together [bytes]; answers may be six times as large."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings that apply to all requests."""

    max_bytes: int = MAX_REQUEST_RECORD_BYTES
    """A larger record is a dead letter."""
    max_topics: int = 10_000
    """A request for more topics is a dead letter."""
    max_name_chars: int = 1024
    """A request with a longer user, client-id, request id or topic name is a dead letter."""
    exempt_users: frozenset[str] = frozenset()
    """The principals that are never throttled."""
    shadow: bool = False
    """Whether all quotas are evaluated and reported but not enforced."""
    deduplication: Deduplication = NO_DEDUPLICATION
    """The time for which requests are remembered, so that they are not charged twice."""
    user_topic_prefix: str | None = None
    """The prefix of the users' own request topics, if the topic identifies the user (`quota.admission.identity`)."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the policy of a deployment."""
        return cls(
            exempt_users=frozenset(settings.quota.exempt_users),
            shadow=settings.quota.shadow,
            deduplication=Deduplication(round(settings.repeats.window_seconds * 1000)),
            user_topic_prefix=settings.topics.user_topic_prefix,
        )
