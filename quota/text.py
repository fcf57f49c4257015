"""Names, times and quotas as people read them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET, UnsetType


def format_configs(configs: Mapping[str, Any] | None) -> str:
    """The same, of its configs by their names."""
    if configs is None:
        return "none"
    return ",".join(f"{name}={config_value(value)}" for name, value in configs.items() if value not in (None, False))


def config_value(value: object) -> str:
    """Return the value of a config as `--add-config` takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def describe_sharing(tags: Mapping[str, str]) -> str:
    """Who shares the bucket of these tags, for people."""
    user, client = tags.get("user"), tags.get("client-id")
    if tags.keys() - {"user", "client-id"}:
        return f"of {format_tags(tags)}, shared by all who have these tags"
    if user and client:
        return f"of user {quoted(user)} with client-id {quoted(client)} alone"
    return (
        f"of user {quoted(user)}, shared by all its client-ids"
        if user
        else f"of client-id {quoted(client or '')}, shared by all users"
    )


def printable(text: str) -> str:
    """Text of someone else, without what a terminal would obey."""
    return text if text.isprintable() else repr(text)


def format_time(epoch_ms: int) -> str:
    """A time as people read it, in UTC."""
    if epoch_ms < 0:
        return "ever"
    return datetime.fromtimestamp(epoch_ms / 1000, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def quoted(name: str) -> str:
    """Return a name so that a reader cannot take it for another: what is not ASCII is also spelled out."""
    literal, spelled = repr(name), ascii(name)
    return literal if literal == spelled else f"{literal} (spelled {spelled})"


def format_tags(tags: Mapping[str, str]) -> str:
    """Tags and their values, for people."""
    return ", ".join(f"{tag} {quoted(value)}" for tag, value in tags.items())


def display_name(part: str | UnsetType | None) -> str | None:
    """One part of an entity in a column: its name, `<default>`, or None where it takes no part."""
    if part is UNSET:
        return None
    return "<default>" if part is None else part
