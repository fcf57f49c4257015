"""Tenancy: the entities that count as one tenant and have their own quota (KIP-257)."""

import enum

from msgspec import UNSET

from quota.records.entity import QuotaEntity


class Tenancy(enum.Enum):
    """The names of a request that identify its tenant."""

    USER = "user"
    CLIENT = "client"
    USER_CLIENT = "user-client"

    def entity(self, user: str, client_id: str) -> QuotaEntity:
        """Return the entity whose quota applies to a request."""
        by_user, by_client = self is not Tenancy.CLIENT, self is not Tenancy.USER
        return QuotaEntity(user if by_user else UNSET, client_id if by_client else UNSET)

    @property
    def default(self) -> QuotaEntity:
        """The entity of the default quota, for tenants without their own quota."""
        by_user, by_client = self is not Tenancy.CLIENT, self is not Tenancy.USER
        return QuotaEntity(None if by_user else UNSET, None if by_client else UNSET)
