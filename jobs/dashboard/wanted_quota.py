"""A quota that a page tries out or sets."""

from dataclasses import replace

import msgspec

from quota.kafka.quotas.writer import alter_quota, author
from quota.records import codec
from quota.records.entity import QuotaEntity
from quota.records.fields import Positive
from quota.records.quota import Quota
from quota.records.quota_log import RATE_CONFIG, QuotaRecord
from quota.settings import Settings
from quota.timeline.plan import quota_record

_BURST_CONFIG = "controller_mutation_burst"
_COMMENT = "set on the dashboard"
_MAX_COMMENT_CHARS = 500


class WantedQuota(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The wanted quota of an entity; its other options stay unchanged."""

    entity: QuotaEntity
    controller_mutation_rate: Positive | None
    """The rate in mutations/s; None for no quota."""
    controller_mutation_burst: Positive | None = None
    """The burst in mutations; None for the burst that follows from the rate."""
    comment: str = ""

    def applied_to(self, present: Quota | None) -> Quota | None:
        """Return the quota that results from the current one."""
        rate = self.controller_mutation_rate
        if rate is None:
            return None
        return replace(present or Quota(rate), rate=rate, burst=self.controller_mutation_burst)


_decoder = msgspec.json.Decoder(WantedQuota)


def read_wanted_quota(body: bytes) -> WantedQuota:
    """Parse the body of a request.

    Raises:
        BadRecord: it is invalid; the message names the field and the value.
    """
    return codec.decode(body, _decoder)


def set_quota(settings: Settings, wanted: WantedQuota) -> int:
    """Set or remove a quota.

    Returns:
        The time when it takes effect [epoch ms].

    Raises:
        ClusterError: the quota topic cannot be read or written.
    """

    def make_record(present: Quota | None) -> QuotaRecord:
        return msgspec.structs.replace(
            quota_record(wanted.entity, wanted.applied_to(present)),
            altered_by=author(settings),
            comment=wanted.comment[:_MAX_COMMENT_CHARS] or _COMMENT,
            altered_configs=[RATE_CONFIG] if wanted.controller_mutation_rate is None else [RATE_CONFIG, _BURST_CONFIG],
        )

    _, since = alter_quota(settings, wanted.entity, None, make_record)
    return since
