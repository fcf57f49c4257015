"""Who counts as one tenant, and has a quota of their own (KIP-257)."""

import enum

from msgspec import UNSET

from quota.records.entity import QuotaEntity


class Tenancy(enum.Enum):
    """By what requests are told apart."""

    USER = "user"
    CLIENT = "client"
    USER_CLIENT = "user-client"

    def entity(self, user: str, client_id: str) -> QuotaEntity:
        """Whose quota a request is judged by."""
        by_user, by_client = self is not Tenancy.CLIENT, self is not Tenancy.USER
        return QuotaEntity(user if by_user else UNSET, client_id if by_client else UNSET)

    @property
    def default(self) -> QuotaEntity:
        """The quota of those who have none of their own."""
        by_user, by_client = self is not Tenancy.CLIENT, self is not Tenancy.USER
        return QuotaEntity(None if by_user else UNSET, None if by_client else UNSET)
