"""Which callback judges, and what it is configured with."""

from dataclasses import dataclass, field

import msgspec

DEFAULT_CLASS = "quota.callbacks.default.DefaultQuotaCallback"


class CallbackSetting(msgspec.Struct, frozen=True):
    """A class that implements `quota.callbacks.interface.ClientQuotaCallback`, by its full name, and its configs."""

    class_name: str = msgspec.field(name="class")
    """The class, by its full name: one that the settings allow."""
    configs: dict[str, str] = {}
    """What `configure` is given."""

    @property
    def is_default(self) -> bool:
        """Whether it stands for the eight levels, which need no callback."""
        return self.class_name == DEFAULT_CLASS


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What the settings say of callbacks; it goes to the workers, so it holds names only."""

    class_name: str = DEFAULT_CLASS
    configs: tuple[tuple[str, str], ...] = ()
    more_classes: frozenset[str] = field(default_factory=frozenset)
    """Classes that records of the quota log may name besides."""

    @property
    def setting(self) -> CallbackSetting:
        """The callback that judges until a record of the quota log names another."""
        return CallbackSetting(self.class_name, dict(self.configs))

    @property
    def allowed(self) -> frozenset[str]:
        """All classes that may judge."""
        return self.more_classes | {self.class_name, DEFAULT_CLASS}
