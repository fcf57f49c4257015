"""Requests of users with passwords and certificates, with and without permissions."""

from confluent_kafka.admin import AdminClient, ScramMechanism

from tests.evidence.request_logs.calls import Call, Client, Operation, Topic
from tests.evidence.request_logs.observer import OBSERVER
from tests.evidence.request_logs.stage import Stage
from tests.evidence.request_logs.users import ADMIN, ALICE, CERTIFIED, DENIED, PASSWORDS, SCRAM, UMLAUT
from tests.support.users import add_scram_users, allow

_ALL = ("CREATE", "ALTER", "DELETE", "DESCRIBE")


def prepare(stage: Stage) -> None:
    """Create the user for SCRAM, and grant users their permissions."""
    admin = AdminClient({**stage.librdkafka_config(OBSERVER, ADMIN), "log_level": 2})
    add_scram_users(admin, ScramMechanism.SCRAM_SHA_256, {SCRAM: PASSWORDS[SCRAM]})
    # Topics that begin with `own.`, and those of the strict, patient and permissive client.
    prefixes = ("own.", "strict.", "patient.", "permissive.")
    acls = [("TOPIC", prefix, "PREFIXED", operation) for prefix in prefixes for operation in _ALL]
    for user in (ALICE, UMLAUT, SCRAM, CERTIFIED):
        allow(admin, user, acls)


def users(stage: Stage) -> None:
    """Have each user create, grow and delete its own topics, and try the same with topics of others."""
    clients: dict[str, Client] = {
        "alice": stage.admin("team-alice", ALICE),
        "rd-alice": stage.librdkafka("team-alice-rd", ALICE),
        "umlaut": stage.admin("team-jürgen", UMLAUT),
        "scram": stage.admin("team-bob", SCRAM),
        "certified": stage.certified("team-certified"),
    }
    ask = stage.drive.ask
    for name, client in clients.items():
        topics = (Topic(f"own.{name}", 2), Topic(f"own.default.{name}", None), Topic(f"other.{name}", 1))
        ask(client, Call(Operation.CREATE, topics))
        ask(client, Call(Operation.GROW, (Topic(f"own.{name}", 3), Topic("before.kept", 9))))
        ask(client, Call(Operation.DELETE, (Topic(f"own.{name}"), Topic("before.kept"))))
    alice = clients["alice"]
    ask(alice, Call(Operation.DELETE, (Topic(None, id=stage.drive.id_of("before.kept")),), by_id=True))


def denied(stage: Stage) -> None:
    """Have a user without permissions try each operation."""
    client = stage.admin("team-mallory", DENIED)
    ask = stage.drive.ask
    ask(client, Call(Operation.CREATE, (Topic("own.denied", 2),)))
    ask(client, Call(Operation.CREATE, (Topic("own.denied", 2),), validate_only=True))
    ask(client, Call(Operation.GROW, (Topic("before.kept", 9),)))
    ask(client, Call(Operation.DELETE, (Topic("before.kept"),)))
    ask(client, Call(Operation.DELETE, (Topic(None, id=stage.drive.id_of("before.kept")),), by_id=True))
