"""The errors of this project; the message of each is one line that says what to do."""


class MutationQuotaError(Exception):
    """The base of all errors; the command line prints the message and exits with `exit_code`."""

    exit_code = 1
    query: str | None = None
    """The name of the query that has failed, if it is one."""
    batch: int | None = None
    """The number of the batch in which it has failed, if it is known."""


class BadInput(MutationQuotaError):
    """An unusable argument, setting or file."""

    exit_code = 2


class NotFound(MutationQuotaError):
    """What a command names does not exist."""

    exit_code = 4


class BadRecord(MutationQuotaError):
    """A record that breaks its contract.

    The message names the field and the value. A request that raises it becomes a dead letter.
    """


class ClusterError(MutationQuotaError):
    """A Kafka cluster that cannot be reached, or is not set up as the jobs need it."""
