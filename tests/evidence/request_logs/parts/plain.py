"""Ordinary requests of administrators, who create, grow and delete topics, and their errors."""

from tests.evidence.request_logs.calls import Call, Operation, Topic
from tests.evidence.request_logs.frames import unknown_id
from tests.evidence.request_logs.stage import Stage

BEFORE = {"before.grown": 2, "before.deleted": 4, "before.deleted-by-id": 5, "before.kept": 3}
"""Partitions of the topics that are created before the log begins, by topic."""

_MANY = 30


def create(stage: Stage) -> None:
    """Create topics by counts, by the default, by assignments, several in a request, and some that are invalid."""
    client, ids = stage.admin("app-create"), [each.id for each in stage.cluster.brokers]
    assigned = [[each] for each in (*ids, ids[0])]

    def ask(*topics: Topic, validate_only: bool = False) -> None:
        stage.drive.ask(client, Call(Operation.CREATE, topics, validate_only))

    ask(Topic("orders.eu.v1", 3))
    ask(Topic("orders_eu-v2", 1, replication=None, configs={"retention.ms": "60000"}))
    ask(Topic("by-default", None, replication=None))
    ask(Topic("by-assignment", assignments=assigned, replication=None))
    ask(Topic("several-a", 2), Topic("several-b", None), Topic("several-c", assignments=assigned, replication=None))
    ask(Topic("only-checked", 12), Topic("only-checked-by-default", None), validate_only=True)
    ask(Topic("orders.eu.v1", 3))
    ask(Topic("no-partitions", 0))
    ask(
        Topic("mixed-good", 2),
        Topic("orders.eu.v1", 9),
        Topic("mixed-no-partitions", -2),
        Topic("mixed bad name ☃", 1),
        Topic("mixed-replicas", 1, replication=9),
        Topic("mixed-config", 1, configs={"no.such.config": 'a "value"\n'}),
        Topic("mixed-unknown-broker", assignments=[[77]], replication=None),
    )
    ask(*(Topic(f"many-{number:02}", 1) for number in range(_MANY)))


def grow(stage: Stage) -> None:
    """Grow topics to more partitions, to as many as before and to fewer, and a topic that does not exist."""
    client, first = stage.admin("app-grow"), stage.cluster.brokers[0].id

    def ask(*topics: Topic, validate_only: bool = False) -> None:
        stage.drive.ask(client, Call(Operation.GROW, topics, validate_only))

    ask(Topic("orders.eu.v1", 5))
    ask(Topic("before.grown", 6))
    ask(Topic("by-default", 5, assignments=[[first], [first]]))
    ask(Topic("orders.eu.v1", 5))
    ask(Topic("orders.eu.v1", 4))
    ask(Topic("orders.eu.v1", 50), validate_only=True)
    ask(Topic("never-created", 2))
    ask(Topic("several-a", 4), Topic("several-b", 1), Topic("never-created", 2), Topic("several-c", 7))


def delete(stage: Stage) -> None:
    """Delete topics by names and by ids, and some that do not exist; create a deleted one again."""
    client, drive = stage.admin("app-delete"), stage.drive

    def by_id(*names: str) -> tuple[Topic, ...]:
        return tuple(Topic(None, id=drive.id_of(each)) for each in names)

    drive.ask(client, Call(Operation.DELETE, (Topic("several-a"), Topic("several-b"))))
    drive.ask(client, Call(Operation.DELETE, (Topic("never-created"),)))
    drive.ask(client, Call(Operation.DELETE, (Topic("before.deleted"), Topic("never-created"))))
    drive.ask(client, Call(Operation.DELETE, by_id("before.deleted-by-id", "several-c"), by_id=True))
    ids = (*by_id("mixed-good"), Topic(None, id=unknown_id()))
    drive.ask(client, Call(Operation.DELETE, ids, by_id=True))
    drive.ask(client, Call(Operation.DELETE, (Topic("orders_eu-v2"),)))
    drive.ask(client, Call(Operation.CREATE, (Topic("orders_eu-v2", 7),)))
    if drive.describe(["orders_eu-v2"]):  # with ZooKeeper a name is taken until the deletion is over
        drive.ask(client, Call(Operation.DELETE, by_id("orders_eu-v2"), by_id=True))
    drive.ask(client, Call(Operation.DELETE, tuple(Topic(f"many-{number:02}") for number in range(_MANY))))


def older_versions(stage: Stage) -> None:
    """Create, grow and delete with librdkafka, which uses older versions, and a client-id that is not ASCII."""
    client = stage.librdkafka("zahlungen-für-Köln ☃ 😀")
    for call in (
        Call(Operation.CREATE, (Topic("rd.one", 2), Topic("rd.default", None))),
        Call(Operation.CREATE, (Topic("rd.one", 2), Topic("rd.two", 1))),
        Call(Operation.CREATE, (Topic("rd.only-checked", 4),), validate_only=True),
        Call(Operation.GROW, (Topic("rd.one", 4), Topic("rd.none", 4))),
        Call(Operation.GROW, (Topic("rd.two", 3),), validate_only=True),
        Call(Operation.DELETE, (Topic("rd.one"), Topic("rd.none"))),
    ):
        stage.drive.ask(client, call)
