"""Hand-made requests in all versions, as a program."""

from concurrent.futures import ThreadPoolExecutor

from tests.evidence.gateway import odd_requests, versions
from tests.evidence.gateway.ground import Ground, create_topics
from tests.evidence.gateway.observation import Observation
from tests.evidence.gateway.program import Program
from tests.evidence.gateway.sides import Side, password_of
from tests.support.wire_client import WireClient


def _prepare(on: Ground) -> None:
    topics = {}
    for side in on.sides:
        topics |= versions.prepared_topics(side) | odd_requests.prepared_topics(side)
    create_topics(on, topics)


def _play(on: Ground, side: Side, first: int) -> list[Observation]:
    """Play all cases at once, each by a separate user."""
    cases = versions.cases(side) + odd_requests.cases(side)

    def play(number: int) -> list[Observation]:
        user = side.user(first + number)
        with WireClient(side.server, on.protocol, "frames") as client:
            client.authenticate(user, password_of(user))
            return cases[number](client)

    with ThreadPoolExecutor(len(cases)) as pool:
        return [each for found in pool.map(play, range(len(cases))) for each in found]


HAND_MADE = Program(
    name="hand-made requests",
    about="all 16 versions of CreateTopics, CreatePartitions and DeleteTopics, over a socket, authenticated by "
    "PLAIN; answers are compared field by field. The next request is sent as soon as a response arrives, so it ends "
    "together with the mute",
    users=50,
    play=_play,
    quick=True,
    prepare=_prepare,
    differences=odd_requests.DIFFERENCES,
    differing_topics=odd_requests.DIFFERING_TOPICS,
)
