"""The security of connections to the target cluster: that of `[kafka]`, or its own."""

from collections.abc import Iterator

from quota.settings.security.settings import SecuritySettings


class TargetSettings(SecuritySettings):
    """Security of connections to the target cluster: that of `[kafka]`, unless a key is set here.

    Then none of `[kafka]` applies, so that no login is sent to a cluster that it is not for.
    """

    @property
    def is_own(self) -> bool:
        """Whether a key is set, so that nothing is inherited."""
        return bool(self.model_fields_set)

    def resolved(self, kafka: SecuritySettings) -> SecuritySettings:
        """Return the security in force."""
        return self if self.is_own else kafka

    def problems_with(self, kafka: SecuritySettings) -> Iterator[str]:
        """Yield the inconsistencies.

        Raises:
            ValueError: a file cannot be read.
        """
        if not self.is_own:
            return
        if "security_protocol" not in self.model_fields_set and kafka.security_protocol != self.security_protocol:
            yield (
                f"security_protocol is not set, and kafka.security_protocol={kafka.security_protocol} is not "
                "inherited, because a key of [target] is set: set all that the target needs"
            )
        yield from self.problems()
