"""Kafka's own AdminClient, with and without its retry."""

from functools import cache

from tests.evidence.gateway.ground import Ground, create_topics
from tests.evidence.gateway.java_programs import JavaPrograms
from tests.evidence.gateway.observation import Observation
from tests.evidence.gateway.program import Difference, Program
from tests.evidence.gateway.sides import Side
from tests.evidence.gateway.users import CLIENTS_USER, DENIED_USER, SCRAM_USER

_REFUSED = "ThrottlingQuotaExceededException: The throttling quota has been exceeded."
_TOPICS = {"grow-a": 1, "grow-b": 1, "delete-a": 11, "delete-b": 1, "by-id-a": 11, "by-id-b": 1, "denied-grow": 1}
SOURCES = ("Side", "Observer", "PassedOn", "AdminCases")


def _prepare(on: Ground) -> None:
    create_topics(on, {side.topic(name): count for side in on.sides for name, count in _TOPICS.items()})
    compiled(on)


@cache
def _compiled(folder, jars) -> JavaPrograms:
    return JavaPrograms(folder, SOURCES, jars)


def compiled(on: Ground) -> JavaPrograms:
    """Return the compiled program; it is compiled once per folder."""
    return _compiled(on.folder / "admin-client", on.jars)


def _play(on: Ground, side: Side, first: int) -> list[Observation]:
    users = (first, SCRAM_USER, DENIED_USER, CLIENTS_USER)
    return compiled(on).observe(side, "AdminCases", *map(str, users))


ADMIN_CLIENT = Program(
    name="Java AdminClient",
    about="with its defaults, which retry requests refused by a quota, and with `retryOnQuotaViolation(false)`",
    users=20,
    play=_play,
    quick=True,
    prepare=_prepare,
    differences={
        ("validateOnly, in debt", "validate"): Difference(
            "`validate_only` through the gateway", f"validate-b: {_REFUSED}", "validate-b: ok"
        ),
        ("validateOnly, with a full bucket", "create"): Difference(
            "`validate_only` through the gateway", f"free-b: {_REFUSED}", "free-b: ok"
        ),
    },
    differing_topics=("free-b",),
)
