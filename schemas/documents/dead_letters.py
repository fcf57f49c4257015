"""Documents on dead letters."""

import msgspec


class ListedDeadLetter(msgspec.Struct, frozen=True):
    """An invalid record of the request topic."""

    id: str
    """The position of the invalid record: topic-partition-offset."""
    timestamp: int | None
    """The time of the invalid record, epoch ms; null if its producer wrote the time."""
    user: str | None
    """The sender that the record names, or its topic identifies; null if neither does."""
    client_id: str | None
    """The client-id that the record names; null if it names none."""
    error: str
    """The reason, which names the field and the value."""
    value: str | None
    """The invalid record, in base64 if it is not UTF-8; null if it has no value."""


class DeadLetters(msgspec.Struct, frozen=True):
    """The output of `dead-letters list` and `dead-letters describe`."""

    dead_letters: list[ListedDeadLetter]
    """The latest dead letters, in the order in which they were received."""
    left_out: int
    """The number of earlier dead letters that --limit left out."""


class ResentDeadLetters(msgspec.Struct, frozen=True):
    """The output of `dead-letters resend`."""

    dead_letters: list[str]
    """The ids of the dead letters: topic-partition-offset."""
    applied: bool
    """Whether their records were sent; false for a dry run."""
