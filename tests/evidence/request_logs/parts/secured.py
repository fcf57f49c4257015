"""Users with passwords and certificates, some of whom are allowed something."""

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.evidence.request_logs.calls import Call, Client, Operation, Topic
from tests.evidence.request_logs.observer import OBSERVER
from tests.evidence.request_logs.stage import Stage
from tests.evidence.request_logs.users import ADMIN, ALICE, CERTIFIED, DENIED, PASSWORDS, SCRAM, UMLAUT

_SECONDS = 30
_ITERATIONS = 4096
_ALL = (AclOperation.CREATE, AclOperation.ALTER, AclOperation.DELETE, AclOperation.DESCRIBE)


def prepare(stage: Stage) -> None:
    """Create the user with a stored password, and allow users what they do."""
    admin = AdminClient({**stage.librdkafka_config(OBSERVER, ADMIN), "log_level": 2})
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, _ITERATIONS)
    upsertion = UserScramCredentialUpsertion(SCRAM, credential, PASSWORDS[SCRAM].encode())
    for future in admin.alter_user_scram_credentials([upsertion]).values():
        future.result(_SECONDS)
    acls = [each for user in (ALICE, UMLAUT, SCRAM, CERTIFIED) for each in _acls(user)]
    for future in admin.create_acls(acls).values():
        future.result(_SECONDS)


def users(stage: Stage) -> None:
    """Let each user create, grow and delete own topics, and try what is another's."""
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
    """Let a user try who is allowed nothing."""
    client = stage.admin("team-mallory", DENIED)
    ask = stage.drive.ask
    ask(client, Call(Operation.CREATE, (Topic("own.denied", 2),)))
    ask(client, Call(Operation.CREATE, (Topic("own.denied", 2),), validate_only=True))
    ask(client, Call(Operation.GROW, (Topic("before.kept", 9),)))
    ask(client, Call(Operation.DELETE, (Topic("before.kept"),)))
    ask(client, Call(Operation.DELETE, (Topic(None, id=stage.drive.id_of("before.kept")),), by_id=True))


def _acls(user: str) -> list[AclBinding]:
    """Allow a user topics that begin with `own.` and the strict and patient client's."""
    return [
        AclBinding(
            ResourceType.TOPIC,
            prefix,
            ResourcePatternType.PREFIXED,
            f"User:{user}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for prefix in ("own.", "strict.", "patient.", "permissive.")
        for operation in _ALL
    ]
