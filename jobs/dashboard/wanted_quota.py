"""A quota that a page tries out."""

import shlex

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from quota.records import codec
from quota.records.entity import QuotaEntity
from quota.records.fields import Positive
from quota.records.quota import BURST_CONFIG, RATE_CONFIG, Quota


class WantedQuota(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The wanted quota of an entity; its other options stay unchanged."""

    entity: QuotaEntity
    controller_mutation_rate: Positive | None
    """The rate in mutations/s; None for no quota."""
    controller_mutation_burst: Positive | None = None
    """The burst in mutations; None for the burst that follows from the rate."""

    def applied_to(self, present: Quota | None) -> Quota | None:
        """Return the quota that results from the current one."""
        rate = self.controller_mutation_rate
        if rate is None:
            return None
        return replace(present or Quota(rate), rate=rate, burst=self.controller_mutation_burst)

    def command(self, present: Quota | None) -> str | None:
        """Return the command that changes the current quota to this one; None if there is no quota to remove."""
        rate, burst = self.controller_mutation_rate, self.controller_mutation_burst
        words = ["mutation-quota", "quotas", "alter", *_entity_options(self.entity)]
        if rate is None:
            return shlex.join([*words, "--delete-config", RATE_CONFIG]) if present else None
        added = f"{RATE_CONFIG}={rate}" if burst is None else f"{RATE_CONFIG}={rate},{BURST_CONFIG}={burst}"
        words += ["--add-config", added]
        if burst is None and present and present.burst is not None:
            words += ["--delete-config", BURST_CONFIG]
        return shlex.join(words)


_decoder = msgspec.json.Decoder(WantedQuota)


def read_wanted_quota(body: bytes) -> WantedQuota:
    """Parse the body of a request."""
    return codec.decode(body, _decoder)


def _entity_options(entity: QuotaEntity) -> list[str]:
    parts = (("user", entity.user), ("client", entity.client_id))
    return [f"--{kind}-defaults" if name is None else f"--{kind}={name}" for kind, name in parts if name is not UNSET]
