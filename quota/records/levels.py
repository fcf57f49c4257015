"""The eight levels of quotas, in order of precedence (KIP-257), and the resolution of a request by them."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from quota.records.entity import NO_TAGS, QuotaEntity, Tags
from quota.records.quota_log import Quota
from quota.records.record import Record
from quota.records.request import MutationRequest


@dataclass(frozen=True, slots=True)
class Limit:
    """A quota in force, and the time (epoch ms) since which its bucket has had these bounds."""

    quota: Quota
    since: int


class Resolution(NamedTuple):
    """The quota of a request: the tags of its bucket, its limit, and the entity the quota is set for.

    Where no quota applies, or the user is `exempt`, `limit` and `entity` are None and the request is unlimited.
    """

    tags: Tags
    limit: Limit | None
    entity: QuotaEntity | None
    reset_at: int | None = None  # the latest reset of the bucket by an operator, epoch ms
    shadow: bool = False
    exempt: bool = False
    callback: str | None = None  # the class that resolved the quota; None for the eight levels


UNLIMITED = Resolution(NO_TAGS, None, None)
EXEMPT = Resolution(NO_TAGS, None, None, exempt=True)


class ResolvedRequest(msgspec.Struct, frozen=True):
    """A request with its record and its quota."""

    record: Record
    request: MutationRequest
    resolution: Resolution


def unused_name(entities: Iterable[QuotaEntity]) -> str:
    """Return a name that is in none of these entities."""
    names = {name for entity in entities for name in entity.names.values()}
    return next(name for name in map(str, count()) if name not in names)


def levels(user: str, client_id: str) -> tuple[tuple[QuotaEntity, Tags], ...]:
    """Return the eight levels that may hold a request's quota, the most specific first."""
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
