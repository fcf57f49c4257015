"""Which topics an applier may change for whom."""

import re
from collections.abc import Iterable

from quota.admission.identity import user_of


class TopicPermissions:
    """Topics by their names; Kafka's own, which begin with two underscores, never are among them."""

    def __init__(self, pattern: str = ".*", protected: Iterable[str] = (), users_of: str | None = None) -> None:
        """Allow topics by their names.

        Args:
            pattern: what a name must match, where {user} and {client_id} stand for who asks.
            protected: names that nobody may change.
            users_of: what the topics by which users make requests are named after; nobody may change those either.
        """
        self._pattern = pattern
        self._protected = frozenset(protected)
        self._users_of = users_of

    def why_not(self, name: str, user: str, client_id: str) -> str | None:
        """The reason why this user may not change this topic; None if they may."""
        of_user = self._users_of is not None and user_of(name, self._users_of) is not None
        if of_user or name in self._protected or name.startswith("__"):
            return f"topic {name} is protected"
        pattern = self._pattern.replace("{user}", re.escape(user)).replace("{client_id}", re.escape(client_id))
        if re.fullmatch(pattern, name) is None:
            return f"{user} may not change topic {name}: apply.topic_pattern is {self._pattern}"
        return None
