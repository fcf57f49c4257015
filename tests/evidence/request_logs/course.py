"""The requests that each cluster receives, in their order."""

import time
from collections.abc import Callable

from tests.evidence.request_logs.calls import Call, Operation, Topic
from tests.evidence.request_logs.cluster import Cluster
from tests.evidence.request_logs.drive import Drive
from tests.evidence.request_logs.java_client import java_driver
from tests.evidence.request_logs.log_settings import REQUEST_LOGGER
from tests.evidence.request_logs.observer import OBSERVER, observing
from tests.evidence.request_logs.parts import by_itself, odd, plain, quotas, secured
from tests.evidence.request_logs.setups import JSON_SINCE
from tests.evidence.request_logs.stage import Stage
from tests.evidence.request_logs.users import ADMIN, ALICE

Part = Callable[[Stage], None]


def drive(cluster: Cluster, begun: Callable[[], None]) -> Drive:
    """Send a cluster all requests, and return the record.

    Args:
        cluster: The cluster.
        begun: Called just before the request logs are switched on.
    """
    with java_driver() as java, observing(cluster) as observer:
        stage = Stage(cluster, java, Drive(observer))
        admin = stage.admin(OBSERVER)
        if cluster.set_up.secured:
            secured.prepare(stage)
        topics = tuple(Topic(name, count) for name, count in plain.BEFORE.items())
        stage.drive.ask(admin, Call(Operation.CREATE, topics))
        stage.drive.requests.clear()
        begun()
        for each in cluster.brokers:
            java.call(admin.config, "level", node=str(each.id), logger=REQUEST_LOGGER, level="DEBUG")
        for part in _parts(cluster):
            part(stage)
        return stage.drive


def _parts(cluster: Cluster) -> list[Part]:
    if cluster.set_up.release < JSON_SINCE:
        return [plain.older_versions]
    if cluster.set_up.secured:
        return [
            secured.users,
            secured.denied,
            lambda stage: by_itself.automatic(stage, ADMIN),
            lambda stage: by_itself.internal(stage, ADMIN),
            lambda stage: quotas.limited(stage, ALICE),
        ]
    first: list[Part] = [plain.create, plain.grow, plain.older_versions, by_itself.automatic, by_itself.internal]
    last: list[Part] = [plain.delete, odd.versions, odd.client_ids, odd.odd, odd.at_once, odd.slow, quotas.limited]
    return [*first, _turn_of_the_hour, *last]


def _turn_of_the_hour(stage: Stage) -> None:
    """Wait for the new hour, if the set-up has one: the next line of the log begins a new file."""
    turn = stage.cluster.turn_ms
    if turn is not None:
        time.sleep(max(0.0, turn / 1000 + 0.1 - time.time()))
