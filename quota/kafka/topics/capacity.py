"""The rates at which a cluster completes the creation and the deletion of partitions, measured on topics of its own."""

import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from quota.errors import ClusterError, Interrupted
from quota.kafka.timing import Deadline
from quota.kafka.topics.specs import TopicSpec
from quota.kafka.topics.topic_admin import TopicAdmin

_TOPICS_PER_CALL = 20
_CALL_SECONDS = 120.0
_PAUSE_SECONDS = 0.05


class Capacity(msgspec.Struct, frozen=True):
    """The output of `capacity`."""

    partitions: int
    creations_per_second: float
    """Partitions per second, until the leader of each one can be asked for its offsets."""
    deletions_per_second: float
    """Partitions per second, until a broker does not know the topics any more."""
    capacity: float
    """The lower of the two rates [mutations/s]."""


def measure_capacity(
    admin: TopicAdmin, specs: Sequence[TopicSpec], stop: threading.Event, tell: Callable[[str], None]
) -> Capacity:
    """Create topics, delete them, and return both rates. The topics are also deleted after an error.

    `tell` gets the progress. Raises Interrupted if `stop` is set meanwhile.
    """
    calls = [specs[at : at + _TOPICS_PER_CALL] for at in range(0, len(specs), _TOPICS_PER_CALL)]
    partitions = sum(spec.partitions for spec in specs)

    def rate(done: str, change: Callable[[TopicAdmin, Sequence[TopicSpec]], None]) -> float:
        began = time.monotonic()
        for number, call in enumerate(calls):
            if stop.is_set():
                raise Interrupted("interrupted; the topics of the probe were deleted")
            tell(f"{done} {number / len(calls):.0%} of {partitions:,} partitions")
            change(admin, call)
        return round(partitions / (time.monotonic() - began), 1)

    try:
        created, deleted = rate("created", _create), rate("deleted", _delete)
    except BaseException:
        tell("deleting the topics of the probe")
        try:
            for call in calls:
                _delete(admin, call)
        except (ClusterError, KeyboardInterrupt) as error:
            names = f"{specs[0].name.rpartition('-')[0]}-*"
            raise ClusterError(f"{str(error) or 'interrupted'}; delete the topics {names} yourself") from None
        raise
    return Capacity(partitions, created, deleted, min(created, deleted))


def _create(admin: TopicAdmin, call: Sequence[TopicSpec]) -> None:
    admin.create(call)
    partitions = [(spec.name, number) for spec in call for number in range(spec.partitions)]
    deadline = Deadline(_CALL_SECONDS)
    while True:
        try:
            admin.offsets(partitions)
        except ClusterError:  # a leader has not made its replica yet
            if deadline.has_passed:
                raise
        else:
            return
        time.sleep(_PAUSE_SECONDS)


def _delete(admin: TopicAdmin, call: Sequence[TopicSpec]) -> None:
    while admin.delete([spec.name for spec in call]):
        time.sleep(_PAUSE_SECONDS)
