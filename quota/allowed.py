"""Which topics an applier may change for whom."""

import re
from collections.abc import Iterable


class AllowedTopics:
    """Topics by their names; Kafka's own, which begin with two underscores, never are among them."""

    def __init__(self, pattern: str = ".*", protected: Iterable[str] = ()) -> None:
        """Allow names that match `pattern`, where {user} and {client_id} stand for who asks, but those `protected`."""
        self._pattern = pattern
        self._protected = frozenset(protected)

    def why_not(self, name: str, user: str, client_id: str) -> str | None:
        """The reason why this user may not change this topic; None if they may."""
        if name in self._protected or name.startswith("__"):
            return f"topic {name} is protected"
        pattern = self._pattern.replace("{user}", re.escape(user)).replace("{client_id}", re.escape(client_id))
        if re.fullmatch(pattern, name) is None:
            return f"{user} may not change topic {name}: apply.topic_pattern is {self._pattern}"
        return None
