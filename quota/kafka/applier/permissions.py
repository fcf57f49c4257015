"""Permissions of users to have topics changed by an applier."""

import re
from collections.abc import Iterable

from quota.admission.identity import user_of


class TopicPermissions:
    """Permissions by topic name; Kafka's own topics, whose names begin with two underscores, are always denied."""

    def __init__(
        self, pattern: str = ".*", protected: Iterable[str] = (), user_topic_prefix: str | None = None
    ) -> None:
        """Allow topics whose whole name matches; {user} and {client_id} in the pattern are those of the request."""
        self._pattern = pattern
        self._protected = frozenset(protected)
        self._user_topic_prefix = user_topic_prefix

    def denial(self, name: str, user: str, client_id: str) -> str | None:
        """Return why a user may not change a topic; None if they may."""
        is_user_topic = self._user_topic_prefix is not None and user_of(name, self._user_topic_prefix) is not None
        if is_user_topic or name in self._protected or name.startswith("__"):
            return f"topic {name} is protected"
        pattern = self._pattern.replace("{user}", re.escape(user)).replace("{client_id}", re.escape(client_id))
        if re.fullmatch(pattern, name) is None:
            return f"{user} may not change topic {name}: applier.topic_pattern is {self._pattern}"
        return None
