"""What can go wrong, each error with a message of one line that says what to do."""


class MutationQuotaError(Exception):
    """Base of all errors of this project; the command line prints it and ends with `exit_code`."""

    exit_code = 1


class BadInput(MutationQuotaError):
    """An argument, a setting or a file that a person gave is not usable."""

    exit_code = 2


class BadRecord(MutationQuotaError):
    """A record breaks its contract.

    The message names the field and the value. A request that raises it becomes a dead letter.
    """


class ClusterError(MutationQuotaError):
    """A Kafka cluster cannot be reached, or is not set up as the jobs need it."""
