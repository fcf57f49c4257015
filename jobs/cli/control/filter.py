"""Which quotas `describe` lists: KIP-546's filter, each part exact, the default, any, or not asked for."""

from dataclasses import dataclass
from enum import Enum
from typing import Self

from msgspec import UNSET, UnsetType

from jobs.cli.control.entities import part
from quota.errors import BadInput
from quota.records.entity import QuotaEntity


class _Any(Enum):
    ANY = "any"


_Wanted = str | UnsetType | _Any | None


@dataclass(frozen=True, slots=True)
class EntityFilter:
    """One part of each kind; UNSET where it is not asked for, which `strict` takes for "must not be there"."""

    user: _Wanted
    client: _Wanted
    strict: bool

    @classmethod
    def of(
        cls,
        user: str | None,
        user_defaults: bool,
        any_user: bool,
        client: str | None,
        client_defaults: bool,
        any_client: bool,
        *,
        strict: bool,
    ) -> Self:
        """The filter that the options name.

        Raises:
            BadInput: they contradict each other.
        """
        wanted = (
            _wanted("user", user, user_defaults, any_user),
            _wanted("client", client, client_defaults, any_client),
        )
        if strict and wanted == (UNSET, UNSET):
            raise BadInput("--strict needs something to be strict about: a user, a client-id, --any-user, --any-client")
        return cls(*wanted, strict)

    @property
    def is_open(self) -> bool:
        """Whether all quotas match."""
        return (self.user, self.client) == (UNSET, UNSET)

    def matches(self, entity: QuotaEntity) -> bool:
        """Whether a quota of this entity is wanted."""
        return self._matches(self.user, entity.user) and self._matches(self.client, entity.client_id)

    def _matches(self, wanted: _Wanted, found: str | UnsetType | None) -> bool:
        if wanted is UNSET:
            return not self.strict or found is UNSET
        if wanted is _Any.ANY:
            return found is not UNSET
        return wanted == found


def _wanted(option: str, name: str | None, default: bool, any_name: bool) -> _Wanted:
    if any_name:
        if name is not None or default:
            raise BadInput(f"--any-{option} excludes --{option} and --{option}-defaults")
        return _Any.ANY
    return part(option, name, default)
