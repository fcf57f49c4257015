"""Users of a broker with authentication and authorization: their passwords and permissions."""

from collections.abc import Iterable, Mapping

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

_SECONDS = 30
_ITERATIONS = 4096


def add_scram_users(admin: AdminClient, mechanism: ScramMechanism, passwords: Mapping[str, str]) -> None:
    """Create users with passwords that the broker stores."""
    info = ScramCredentialInfo(mechanism, _ITERATIONS)
    upsertions = [UserScramCredentialUpsertion(user, info, word.encode()) for user, word in passwords.items()]
    for future in admin.alter_user_scram_credentials(upsertions).values():
        future.result(_SECONDS)


def allow(admin: AdminClient, user: str, acls: Iterable[tuple[str, str, str, str]]) -> None:
    """Grant operations to a user: (kind of resource, name, LITERAL or PREFIXED, operation)."""
    bindings = [
        AclBinding(
            ResourceType[kind],
            name,
            ResourcePatternType[pattern],
            f"User:{user}",
            "*",
            AclOperation[operation],
            AclPermissionType.ALLOW,
        )
        for kind, name, pattern, operation in acls
    ]
    for future in admin.create_acls(bindings).values():
        future.result(_SECONDS)
