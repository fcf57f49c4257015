"""Further properties of Kafka's clients, which are passed to them unchanged."""

from collections.abc import Iterable

from pydantic import SecretStr

from quota.errors import BadInput
from quota.settings.types import Name

_SECURITY = ("security.", "sasl.", "ssl.", "https.", "enable.ssl.")

ClientProperties = dict[Name, SecretStr]
"""Properties by their names in the client's own documentation. All values are treated as secrets."""

Pairs = tuple[tuple[str, str], ...]


def is_security(name: str) -> bool:
    """Return whether a property changes how a client protects its connection, or where and how it logs in."""
    return name.startswith(_SECURITY)


def as_pairs(properties: ClientProperties) -> Pairs:
    """Return properties with their values, in a form that can be hashed."""
    return tuple((name, value.get_secret_value()) for name, value in properties.items())


def check_not_owned(given: Pairs, own: Iterable[str]) -> None:
    """Check that further properties are not among those that a program sets itself for a client.

    Those determine topics, the records that are read, the order, retries and acknowledgement of writes, and memory.
    """
    owned = {name.lower() for name in own}
    for name, _ in given:
        if name.strip().lower() in owned:  # Spark's options ignore case
            raise BadInput(f"the jobs themselves set the property {name} of Kafka's client; remove it")
