"""Who the clients of the cluster with passwords and certificates are."""

from collections.abc import Mapping

ADMIN, BROKER = "admin", "broker"
ALICE, UMLAUT, SCRAM, DENIED = "alice", "jürgen", "bob", "mallory"

_USERS = (ADMIN, BROKER, ALICE, UMLAUT, SCRAM, DENIED)
PASSWORDS: Mapping[str, str] = {name: f"password-{number}" for number, name in enumerate(_USERS)}
"""Of users that are made for the test data, on a cluster that exists while it is driven."""

SUBJECT = r"/L=Köln/O=Example, Inc./OU=tenants/CN=alice"
CERTIFIED = r"CN=alice,OU=tenants,O=Example\, Inc.,L=Köln"
"""A certificate's subject as openssl takes it, and as Kafka names its owner: from the last part to the first."""


def plain_module(own: str, passwords: Mapping[str, str]) -> str:
    """Return the login module of a listener with all users; `own` is who the node itself is."""
    users = " ".join(f'user_{name}="{password}"' for name, password in passwords.items() if name != SCRAM)
    return f"{login_module(own, 'PLAIN')} {users};"


def login_module(user: str, mechanism: str) -> str:
    """Return the login module of a user, without the semicolon at its end."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return f'org.apache.kafka.common.security.{module} required username="{user}" password="{PASSWORDS[user]}"'
