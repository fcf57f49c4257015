"""The users of both sides: their permissions, passwords and quotas."""

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
)

from quota.errors import MutationQuotaError
from quota.kafka.quotas.writer import write_records
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.settings import Settings
from quota.wire.protocol import Protocol
from tests.evidence.gateway.sides import USERS, Side
from tests.support.users import add_scram_users
from tests.support.wire_client import WireClient

RATE, WINDOW_NUM = 1.0, 3
"""Each user's quota (mutations/s), and controller.quota.window.num: a burst of 3, which few partitions overdraw."""

SCRAM_USER = 398
DENIED_USER = 399
"""A user who authenticates by SCRAM, and one who may do anything but create topics."""
CLIENTS_USER = 397
"""A user with a quota for each of two client-ids."""
CLIENT_IDS = ("one", "two")

_SECONDS = 30
_CREATE_ACLS_EVERYTHING = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
_ALTER_CLIENT_QUOTAS = 49


def add_users(admin: AdminClient, sides: tuple[Side, Side]) -> None:
    """Grant all users everything except what the denied one must not do, and create the users for SCRAM."""
    everyone = [(kind, "*") for kind in _CREATE_ACLS_EVERYTHING] + [(ResourceType.BROKER, "kafka-cluster")]
    bindings = [_acl(*each, "*", AclOperation.ALL, AclPermissionType.ALLOW) for each in everyone]
    for side in sides:
        for resource in ((ResourceType.TOPIC, "*"), (ResourceType.BROKER, "kafka-cluster")):
            bindings += [_acl(*resource, side.user(DENIED_USER), AclOperation.CREATE, AclPermissionType.DENY)]
    for future in admin.create_acls(bindings).values():
        future.result(_SECONDS)
    users = [side.user(SCRAM_USER) for side in sides]
    add_scram_users(admin, ScramMechanism.SCRAM_SHA_256, {user: f"{user}-scram" for user in users})


def _acl(
    kind: ResourceType, name: str, user: str, operation: AclOperation, permission: AclPermissionType
) -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, permission)


def set_quotas(settings: Settings, protocol: Protocol, direct: Side, gateway: Side) -> None:
    """Set each direct user's quota on the broker, and that of the gateway's users in the quota topic."""
    users = [number for number in range(USERS) if number != CLIENTS_USER]
    entities = [[("user", direct.user(number))] for number in users]
    entities += [[("user", direct.user(CLIENTS_USER)), ("client-id", client)] for client in CLIENT_IDS]
    entries = [
        {
            "entity": [{"entityType": kind, "entityName": name} for kind, name in entity],
            "ops": [{"key": "controller_mutation_rate", "value": RATE, "remove": False}],
        }
        for entity in entities
    ]
    (broker,) = settings.kafka.connection.addresses
    with WireClient(broker, protocol, "proof") as client:
        answer = client.call(_ALTER_CLIENT_QUOTAS, 1, {"entries": entries, "validateOnly": False})
    failed = [each["errorMessage"] for each in answer["entries"] if each["errorCode"]]
    if failed:
        raise MutationQuotaError(f"the broker rejects the quotas: {failed[0]}")
    own = [QuotaEntity(gateway.user(number)) for number in users]
    own += [QuotaEntity(gateway.user(CLIENTS_USER), client) for client in CLIENT_IDS]
    write_records(settings, [QuotaRecord(entity, RATE) for entity in own])
