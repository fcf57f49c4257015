"""Documents on the difference between a file of quotas and the quotas in force."""

import msgspec

from schemas.documents.quotas import PlannedChange


class QuotaDiff(msgspec.Struct, frozen=True):
    """The output of `quotas diff`."""

    differs: bool
    """Whether `quotas apply` would change anything."""
    differences: list[PlannedChange]
    """The changes that it would make, by entity."""
