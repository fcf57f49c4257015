"""Clients above quotas that the cluster itself enforces."""

from tests.evidence.request_logs.calls import Call, Client, Operation, Topic
from tests.evidence.request_logs.frames import FrameClient
from tests.evidence.request_logs.observer import OBSERVER
from tests.evidence.request_logs.stage import Stage

_RATE = 1.0
_STRICT, _PATIENT, _PERMISSIVE = "limited-strict", "limited-patient", "limited-permissive"


def limited(stage: Stage, user: str | None = None) -> None:
    """Overdraw quotas by three clients: one gets error 89, one retries, and one is only throttled."""
    observer = stage.admin(OBSERVER)
    for client_id in (_STRICT, _PATIENT, _PERMISSIVE):
        entity = {"client-id": client_id} | ({} if user is None else {"user": user})
        stage.java.call(observer.config, "quota", entity=entity, rate=_RATE)
    _strict(stage, user)
    if user is None:
        _in_debt(stage)
    patient, name = stage.admin(_PATIENT, user), f"patient.{user or 'plain'}"
    stage.drive.ask(patient, Call(Operation.CREATE, (Topic(f"{name}-a", 5),)))
    stage.drive.ask(patient, Call(Operation.CREATE, (Topic(f"{name}-b", 1),), retries=True))
    _permissive(stage, stage.librdkafka(_PERMISSIVE, user), user or "plain")


def _strict(stage: Stage, user: str | None) -> None:
    """Overdraw in one request, then send two more, each of which the client sends when its throttle time is over."""
    client, name = stage.admin(_STRICT, user), f"strict.{user or 'plain'}"
    ask = stage.drive.ask
    ask(client, Call(Operation.CREATE, (Topic(f"{name}-a", 2), Topic(f"{name}-b", 6), Topic(f"{name}-c", 1))))
    ask(client, Call(Operation.CREATE, (Topic(f"{name}-c", 5), Topic(f"{name}-a", 1), Topic("bad name", 1))))
    ask(client, Call(Operation.DELETE, (Topic(f"{name}-a"), Topic(f"{name}-none"))))


def _in_debt(stage: Stage) -> None:
    """Send all requests that are refused in debt, each over a new connection, because the one before is muted."""
    known, none = "before.kept", "debt-none"
    for call in (
        Call(Operation.CREATE, (Topic("debt-first", 9),)),
        Call(Operation.CREATE, (Topic("debt-a", 1), Topic("debt-b", 12))),
        Call(Operation.CREATE, (Topic("debt-a", 1),), validate_only=True),
        Call(Operation.CREATE, (Topic("debt-a", 2), Topic(known, 2), Topic("bad name", 1))),
        Call(Operation.GROW, (Topic(known, 5), Topic(none, 3), Topic("by-default", 5))),
        Call(Operation.GROW, (Topic(known, 5),), validate_only=True),
        Call(Operation.DELETE, (Topic(known), Topic(none))),
        Call(Operation.DELETE, (Topic(None, id=stage.drive.id_of(known)),), by_id=True),
    ):
        client = FrameClient(stage.cluster, _STRICT)
        stage.drive.ask(client, call)
        client.close()


def _permissive(stage: Stage, client: Client, who: str) -> None:
    """Overdraw by versions without error 89."""
    name = f"permissive.{who}"
    ask = stage.drive.ask
    ask(client, Call(Operation.CREATE, (Topic(f"{name}-a", 7),)))
    ask(client, Call(Operation.CREATE, (Topic(f"{name}-b", 1),)))
    ask(client, Call(Operation.GROW, (Topic(f"{name}-a", 8),)))
    ask(client, Call(Operation.DELETE, (Topic(f"{name}-a"),)))
