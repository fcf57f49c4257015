"""The two sides of the comparison, broker and gateway, with their users and topics."""

from dataclasses import dataclass

USERS = 400
"""Number of users on each side; each case begins with one whose bucket is full."""


@dataclass(frozen=True, slots=True)
class Side:
    """The address and the users of a side's programs."""

    name: str
    """The side's name; with a hyphen, it is the prefix of its users and topics."""
    address: str
    """Bootstrap server, as `host:port`."""
    broker: str
    """The broker's own bootstrap server, for programs that produce or consume directly."""

    @property
    def server(self) -> tuple[str, int]:
        """Host and port of the bootstrap server."""
        host, _, port = self.address.partition(":")
        return host, int(port)

    def user(self, number: int) -> str:
        """Return the name of a user."""
        return f"{self.name}-{number:03}"

    def topic(self, name: str) -> str:
        """Return the name of a topic that the other side does not have."""
        return f"{self.name}-{name}"

    def owns(self, topic: str) -> bool:
        """Return whether a topic is of this side."""
        return topic.startswith(self.topic(""))

    def plain(self, text: str) -> str:
        """Return a text without the name of the side and its address."""
        host, port = self.server
        return (
            text.replace(f"{self.name}-", "").replace(self.address, "HOST:PORT").replace(f"{host}, {port}", "ADDRESS")
        )


def password_of(user: str) -> str:
    """Return a user's password."""
    return f"{user}-secret"
