"""The class and the configs of the quota callback (KIP-257)."""

from dataclasses import dataclass, field

import msgspec

DEFAULT_CLASS = "quota.callbacks.default.DefaultQuotaCallback"


class CallbackSetting(msgspec.Struct, frozen=True):
    """A class that implements `quota.callbacks.interface.ClientQuotaCallback`, and its configs."""

    class_name: str = msgspec.field(name="class")
    """The full name of the class; the settings must allow it."""
    configs: dict[str, str] = {}
    """The configs passed to `configure`."""

    @property
    def is_default(self) -> bool:
        """Whether this is the default callback: the eight levels, which need no instance."""
        return self.class_name == DEFAULT_CLASS


@dataclass(frozen=True, slots=True)
class Callbacks:
    """The callback settings. They are pickled for the workers, so they hold names and no classes."""

    class_name: str = DEFAULT_CLASS
    configs: tuple[tuple[str, str], ...] = ()
    more_classes: frozenset[str] = field(default_factory=frozenset)
    """The classes that records of the quota log may name, besides `class_name` and the default."""

    @property
    def setting(self) -> CallbackSetting:
        """The callback in force until a record of the quota log names another."""
        return CallbackSetting(self.class_name, dict(self.configs))

    @property
    def allowed(self) -> frozenset[str]:
        """All classes that may be loaded."""
        return self.more_classes | {self.class_name, DEFAULT_CLASS}
