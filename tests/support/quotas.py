"""Quotas for tests."""

from dataclasses import dataclass

from quota.admission.resolve import Quotas


@dataclass(frozen=True, slots=True)
class FixedQuotas:
    """Quotas that are all known beforehand."""

    quotas: Quotas

    def known(self, until: int) -> Quotas:  # noqa: ARG002 all are known, whenever they hold
        """The quotas."""
        return self.quotas
