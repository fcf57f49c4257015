"""A request with the quota it is judged by."""

from typing import NamedTuple

import msgspec

from quota.records.entity import NO_TAGS, QuotaEntity, Tags
from quota.records.quota import Limit
from quota.records.record import Record
from quota.records.request import MutationRequest


class Resolution(NamedTuple):
    """The quota that a request is judged by: its limit, the entity it is set for, and the tags of its bucket.

    Where no quota matches, or the user is `exempt`, `limit` and `entity` are None and the request is unlimited.
    """

    tags: Tags
    limit: Limit | None
    entity: QuotaEntity | None
    reset_at: int | None = None  # when an operator last reset the bucket, epoch ms
    shadow: bool = False
    exempt: bool = False
    callback: str | None = None  # the class that was asked in place of the eight levels


UNLIMITED = Resolution(NO_TAGS, None, None)
EXEMPT = Resolution(NO_TAGS, None, None, exempt=True)


class ResolvedRequest(msgspec.Struct, frozen=True):
    """A request, the record it came in, and the quota it is judged by."""

    record: Record
    request: MutationRequest
    resolution: Resolution
