"""Requests to a real broker and to the project's job, with the answers that both must give, calculated by hand.

Kafka's window is the default, S * W = 11 s: a bucket of Q mutations a second holds 11 Q. Outcomes do not depend on
milliseconds: a request to be rejected comes seconds before the debt is paid off, one to be admitted some time after.
"""

from collections.abc import Callable
from dataclasses import dataclass

from quota.records.request import Mode, Operation
from tests.evidence.conformance.broker.admin import Topic

CREATE, GROW, DELETE = Operation.CREATE_TOPICS, Operation.CREATE_PARTITIONS, Operation.DELETE_TOPICS


@dataclass(frozen=True, slots=True)
class Expected:
    """A letter for each topic (A admitted, R rejected), and the time when the debt is paid off.

    That time is in ms after the first request, and the throttle time ends then; None is no throttle time. If the quota
    was changed, it depends on the time of the change, ms after the first request.
    """

    verdicts: str
    paid_off: float | Callable[[float], float] | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """A request and its expected answer."""

    operation: Operation
    topics: tuple[Topic, ...]
    expected: Expected
    here: Expected | None = None
    """The project's answer if it intentionally differs from Kafka's."""
    at: float = 0.0
    """Earliest time of the request, seconds after the first one."""
    new_rate: float | None = None
    """The rate to which the quota is changed before the request."""
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """The requests of one client-id."""

    client_id: str
    title: str
    rate: float
    requests: tuple[Ask, ...]
    mode: Mode = Mode.STRICT
    before: tuple[Topic, ...] = ()
    """Topics that exist before, made by a client without a quota."""
    difference: str = ""
    """The difference in docs/explanation/differences-from-kafka.md that it shows."""


def _topic(name: str, partitions: int, count: int = 0) -> Topic:
    return Topic(f"conformance-{name}", partitions, count)


AT_ONCE = Scenario(
    "conformance-at-once",
    "strict, four topics in one request",
    2.0,  # 22 - 12 - 12 = -2
    (
        Ask(CREATE, tuple(_topic(f"at-once-{number}", 12) for number in range(4)), Expected("AARR", 1000)),
        Ask(CREATE, (_topic("at-once-4", 1),), Expected("A"), at=1.4),
    ),
)

WAITING = Scenario(
    "conformance-waiting",
    "strict, create, rejected twice, and after the wait",
    1.0,  # 11 - 16 = -5
    (
        Ask(CREATE, (_topic("waiting-0", 16),), Expected("A")),
        Ask(CREATE, (_topic("waiting-1", 1),), Expected("R", 5000)),
        Ask(CREATE, (_topic("waiting-1", 1),), Expected("R", 5000), at=2.0),
        Ask(CREATE, (_topic("waiting-1", 4),), Expected("A"), at=6.5),
    ),
)

GROWING = Scenario(
    "conformance-growing",
    "strict, grow",
    1.0,  # 11 - 20 = -9
    (
        Ask(GROW, (_topic("growing-0", 20, 21),), Expected("A")),
        Ask(GROW, (_topic("growing-1", 1, 2),), Expected("R", 9000)),
        Ask(CREATE, (_topic("growing-2", 1),), Expected("R", 9000)),
    ),
    before=(_topic("growing-0", 1), _topic("growing-1", 1)),
)

DELETING = Scenario(
    "conformance-deleting",
    "strict, delete",
    1.0,  # 11 - 15 = -4
    (
        Ask(DELETE, (_topic("deleting-0", 15),), Expected("A")),
        Ask(DELETE, (_topic("deleting-1", 2),), Expected("R", 4000)),
        Ask(DELETE, (_topic("deleting-1", 2),), Expected("A"), at=5.4),
    ),
    before=(_topic("deleting-0", 15), _topic("deleting-1", 2)),
)

PERMISSIVE = Scenario(
    "conformance-old-client",
    "permissive, create, grow and delete",
    1.0,  # 11 - 18 = -7, - 3, - 2, - 6
    (
        Ask(CREATE, tuple(_topic(f"old-client-{number}", 6) for number in range(3)), Expected("AAA", 7000)),
        Ask(CREATE, (_topic("old-client-3", 3),), Expected("A", 10_000)),
        Ask(GROW, (_topic("old-client-0", 2, 8),), Expected("A", 12_000)),
        Ask(DELETE, (_topic("old-client-1", 6),), Expected("A", 18_000)),
    ),
    Mode.PERMISSIVE,
)

VALIDATING = Scenario(
    "conformance-validating",
    "strict, validate only",
    1.0,  # 11 - 15 = -4
    (
        Ask(CREATE, (_topic("validating-0", 15),), Expected("A"), validate_only=True),
        Ask(CREATE, (_topic("validating-1", 1),), Expected("R", 4000), here=Expected("A")),
    ),
    difference="`validate_only`",
)

RAISED = Scenario(
    "conformance-raised",
    "strict, a quota raised from 1 to 4 while in debt",
    1.0,  # 11 - 31 = -20
    (
        Ask(CREATE, (_topic("raised-0", 31),), Expected("A")),
        # Kafka: -20 + 4 t = 0. Here: -20 + c + 4 (t - c) = 0, the change being at c.
        Ask(
            CREATE,
            (_topic("raised-1", 1),),
            Expected("R", 5000),
            here=Expected("R", lambda changed: (20_000 + 3 * changed) / 4),
            at=2.0,
            new_rate=4.0,
        ),
    ),
    difference="a quota that is changed",
)

SCENARIOS = (AT_ONCE, WAITING, GROWING, DELETING, PERMISSIVE, VALIDATING, RAISED)
QUICK = (AT_ONCE, PERMISSIVE)
