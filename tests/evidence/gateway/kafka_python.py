"""kafka-python, which raises error 89 and leaves the waiting to the application."""

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from tests.evidence.gateway.ground import Ground, create_topics
from tests.evidence.gateway.observation import Observation
from tests.evidence.gateway.program import Program, Unavailable
from tests.evidence.gateway.sides import Side, password_of

_TOPICS = {"py-grown-a": 1, "py-grown-b": 1, "py-deleted-a": 11, "py-deleted-b": 1}


def _prepare(on: Ground) -> None:
    if find_spec("kafka") is None:
        raise Unavailable("kafka-python is not installed")
    create_topics(on, {side.topic(name): count for side in on.sides for name, count in _TOPICS.items()})


def _play(_: Ground, side: Side, first: int) -> list[Observation]:
    def play(number: int) -> list[Observation]:
        case, steps = _cases(side)[number]
        return _played(side, side.user(first + number), case, steps)

    with ThreadPoolExecutor(3) as pool:
        return [each for found in pool.map(play, range(3)) for each in found]


_READY = "when the client is ready again"
_SECONDS = 60

_Steps = list[tuple[str, Callable[[Any], Any]]]


def _cases(side: Side) -> list[tuple[str, _Steps]]:
    a, b, grown_a, grown_b, deleted_a, deleted_b = (
        side.topic(f"py-{each}") for each in ("a", "b", "grown-a", "grown-b", "deleted-a", "deleted-b")
    )
    return [
        (
            "create",
            [
                ("overdrawn by 8 s", lambda admin: admin.create_topics({a: {"num_partitions": 11}})),
                ("in debt", lambda admin: admin.create_topics({b: {"num_partitions": 1}})),
                ("another call of this client", lambda admin: admin.describe_topics([a])),
                (_READY, lambda admin: admin.create_topics({b: {"num_partitions": 1}})),
                ("exists", lambda admin: admin.create_topics({a: {"num_partitions": 1}})),
            ],
        ),
        (
            "grow",
            [
                ("overdrawn by 8 s", lambda admin: admin.create_partitions({grown_a: 12})),
                ("in debt", lambda admin: admin.create_partitions({grown_b: 2})),
            ],
        ),
        (
            "delete",
            [
                ("overdrawn by 8 s", lambda admin: admin.delete_topics([deleted_a])),
                ("in debt", lambda admin: admin.delete_topics([deleted_b])),
                (_READY, lambda admin: admin.delete_topics([side.topic("py-none")])),
            ],
        ),
    ]


def _played(side: Side, user: str, case: str, steps: _Steps) -> list[Observation]:
    from kafka.admin import KafkaAdminClient  # noqa: PLC0415 it may be missing
    from kafka.errors import KafkaError  # noqa: PLC0415

    admin = KafkaAdminClient(
        bootstrap_servers=side.address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username=user,
        sasl_plain_password=password_of(user),
    )
    seen = []
    try:
        for step, send in steps:
            sent = time.monotonic() * 1000
            try:
                _when_ready(admin, send) if step == _READY else send(admin)
            except KafkaError as error:
                said = f"{type(error).__name__}: {error}"
            else:
                said = "ok"
            throttle = re.search(r"throttle_time_ms=([0-9]+)", said)
            said = re.sub(r"throttle_time_ms=[0-9]+|UUID\('[-0-9a-f]+'\)", "...", side.plain(said))
            received = time.monotonic() * 1000
            seen.append(Observation(case, step, said, sent, received, int(throttle[1]) if throttle else None))
    finally:
        admin.close()
    return seen


def _when_ready(admin: Any, send: Callable[[Any], Any]) -> None:
    """Send a request as soon as the client is ready; until its throttle time is over, it raises NodeNotReadyError."""
    from kafka.errors import NodeNotReadyError  # noqa: PLC0415

    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            send(admin)
        except NodeNotReadyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def _version() -> str:
    try:
        return f"kafka-python {version('kafka-python')}"
    except PackageNotFoundError:
        return ""


KAFKA_PYTHON = Program(
    name="kafka-python",
    about="its `KafkaAdminClient`, which raises error 89 without a retry",
    users=3,
    play=_play,
    prepare=_prepare,
    version=_version,
)
