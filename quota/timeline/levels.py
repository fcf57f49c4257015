"""The eight levels of quotas, in order of precedence (KIP-257)."""

from msgspec import UNSET

from quota.records.entity import QuotaEntity, Tags


def levels(user: str, client_id: str) -> tuple[tuple[QuotaEntity, Tags], ...]:
    """Return the eight levels that may hold a request's quota, the most specific first.

    Returns:
        The entity of each level, and the tags of the bucket used when that level wins.
    """
    both, per_user, per_client = Tags(user, client_id), Tags(user, ""), Tags("", client_id)
    return (
        (QuotaEntity(user, client_id), both),
        (QuotaEntity(user, None), both),
        (QuotaEntity(user), per_user),
        (QuotaEntity(None, client_id), both),
        (QuotaEntity(None, None), both),
        (QuotaEntity(None), per_user),
        (QuotaEntity(UNSET, client_id), per_client),
        (QuotaEntity(UNSET, None), per_client),
    )
