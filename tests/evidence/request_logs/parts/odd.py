"""Requests in each version, and such as client libraries do not send."""

import time

from tests.evidence.request_logs.calls import Call, Operation, Topic
from tests.evidence.request_logs.frames import FrameClient
from tests.evidence.request_logs.stage import Stage

_NO_TIME = 0
_SLOW_SECONDS = 1.5


def versions(stage: Stage) -> None:
    """Create, grow and delete a topic by each version that the cluster supports."""
    client = FrameClient(stage.cluster, "versions")
    for operation in Operation:
        for version in client.versions(operation):
            name = f"version-{operation.lower()}-{version}"
            if operation is not Operation.CREATE:
                _ask(stage, client, Call(Operation.CREATE, (Topic(name, 2),)))
            asked = Topic(name, None if operation is Operation.DELETE else 3)
            _ask(stage, client, Call(operation, (asked,)), version)
    client.close()


def client_ids(stage: Stage) -> None:
    """Create topics without a client-id, with an empty one, with characters that JSON escapes, and with a long one."""
    for number, client_id in enumerate((None, "", 'a "quoted"\\ id\n\t\x01\u2028\x7f', "x" * 300)):
        client = FrameClient(stage.cluster, client_id)
        _ask(stage, client, Call(Operation.CREATE, (Topic(f"client-id-{number}", 1),)))
        client.close()


def odd(stage: Stage) -> None:
    """Send an empty request, a topic twice, time limits of 0, and a request to a broker that is not the controller."""
    client = FrameClient(stage.cluster, "odd")
    _ask(stage, client, Call(Operation.CREATE, ()))
    _ask(stage, client, Call(Operation.CREATE, (Topic("odd-twice", 1), Topic("odd-once", 1), Topic("odd-twice", 2))))
    _ask(stage, client, Call(Operation.CREATE, (Topic("odd-no-time", 2),), timeout_ms=_NO_TIME))
    _ask(stage, client, Call(Operation.GROW, (Topic("odd-once", 2),), timeout_ms=_NO_TIME))
    _ask(stage, client, Call(Operation.DELETE, (Topic("odd-once"),), timeout_ms=_NO_TIME))
    client.close()
    if len(stage.cluster.brokers) > 1:
        other = FrameClient(stage.cluster, "at-the-other-broker", at_controller=False)
        _ask(stage, other, Call(Operation.CREATE, (Topic("odd-elsewhere", 1),)))
        other.close()


def at_once(stage: Stage) -> None:
    """Have two clients send a request at the same time."""
    clients = [FrameClient(stage.cluster, f"at-once-{number}") for number in range(2)]
    calls = [Call(Operation.CREATE, (Topic(f"at-once-{number}", 20),)) for number in range(2)]
    for client, call in zip(clients, calls, strict=True):
        client.send(call)
    for client, call in zip(clients, calls, strict=True):
        stage.drive.keep(client, call, {}, client.receive())
        client.close()


def slow(stage: Stage) -> None:
    """Send a request while the node that it waits for is paused, so that it takes longer than a second."""
    client = FrameClient(stage.cluster, "slow")
    call = Call(Operation.CREATE, (Topic("slow", 2),))
    with stage.cluster.slow.paused():
        client.send(call)
        time.sleep(_SLOW_SECONDS)
    stage.drive.keep(client, call, {}, client.receive())
    client.close()


def _ask(stage: Stage, client: FrameClient, call: Call, version: int | None = None) -> None:
    """Send a request by a version (the newest if None), and record it."""
    before = stage.drive.describe(each.name for each in call.topics if each.name is not None)
    stage.drive.keep(client, call, before, client.ask(call, version))
