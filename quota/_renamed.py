"""The old names of modules that callbacks and clients import: they still work, with a DeprecationWarning."""

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

MODULES: dict[str, tuple[str, ...]] = {
    "quota.callbacks.quotas": ("quota.callbacks.timeline",),
    "quota.callbacks.running": ("quota.callbacks.instance",),
    "quota.callbacks.setting": ("quota.records.callback",),
    "quota.change": ("quota.timeline.change",),
    "quota.cluster": ("quota.records.quota_log",),
    "quota.decision": ("quota.records.decision", "quota.records.dead_letter"),
    "quota.entity": ("quota.records.entity", "quota.timeline.levels", "quota.text"),
    "quota.kafka.aio": ("quota.kafka.admin.aio",),
    "quota.kafka.throttling": ("quota.kafka.admin.errors",),
    "quota.log_record": ("quota.records.quota_log", "quota.records.fields"),
    "quota.muter": ("quota.client.channel_muter",),
    "quota.record": ("quota.records.record",),
    "quota.request": ("quota.records.request",),
    "quota.result": ("quota.records.result",),
    "quota.terms": ("quota.records.quota",),
}
"""The present modules that hold the names of an old one."""

NAMES = {
    "quota.callbacks.quotas": {"CallbackQuotas": "CallbackTimeline"},
    "quota.callbacks.running": {"RunningCallback": "CallbackInstance"},
    "quota.change": {"change_of": "to_change"},
    "quota.log_record": {"LogEntry": "QuotaLogEntry", "read_log_record": "read_quota_log_record"},
}
"""The present names of what such code uses and has also changed its own name, by old module and old name."""


class _RenamedModules:
    """A meta path finder and loader of old modules."""

    @classmethod
    def find_spec(
        cls,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG003 a finder's signature
        target: ModuleType | None = None,  # noqa: ARG003
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, cls()) if fullname in MODULES else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to the import system."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill an old module with the names of the present ones."""
        old, places = module.__name__, MODULES[module.__name__]
        # Level 2 is the import statement: the frames of the import system do not count.
        warnings.warn(f"{old} is deprecated: import from {' or '.join(places)}", DeprecationWarning, stacklevel=2)
        for place in places:
            for name, value in vars(importlib.import_module(place)).items():
                if not name.startswith("__"):
                    setattr(module, name, value)
        for name, present in NAMES.get(old, {}).items():
            setattr(module, name, getattr(module, present))


def install() -> None:
    """Add the old names to the import system; they are looked up after all others."""
    if _RenamedModules not in sys.meta_path:
        sys.meta_path.append(_RenamedModules)
