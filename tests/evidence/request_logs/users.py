"""The users of the secured cluster: names, passwords, a certificate's subject, and login modules."""

from collections.abc import Mapping

ADMIN, BROKER = "admin", "broker"
ALICE, UMLAUT, SCRAM, DENIED = "alice", "jürgen", "bob", "mallory"

_USERS = (ADMIN, BROKER, ALICE, UMLAUT, SCRAM, DENIED)
PASSWORDS: Mapping[str, str] = {name: f"password-{number}" for number, name in enumerate(_USERS)}
"""Passwords by user. They protect nothing: the cluster exists only while the test data is recorded."""

SUBJECT = r"/L=Köln/O=Example, Inc./OU=tenants/CN=alice"
CERTIFIED = r"CN=alice,OU=tenants,O=Example\, Inc.,L=Köln"
"""The subject of alice's certificate as openssl takes it, and in Kafka's principal, which reverses its parts."""


def plain_module(own: str, passwords: Mapping[str, str]) -> str:
    """Return the login module of a PLAIN listener for all users but the SCRAM user; `own` is the node's own user."""
    users = " ".join(f'user_{name}="{password}"' for name, password in passwords.items() if name != SCRAM)
    return f"{login_module(own, 'PLAIN')} {users};"


def login_module(user: str, mechanism: str) -> str:
    """Return the login module of a user for PLAIN or SCRAM, without the semicolon at its end."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return f'org.apache.kafka.common.security.{module} required username="{user}" password="{PASSWORDS[user]}"'
