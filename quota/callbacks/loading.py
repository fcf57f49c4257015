"""From the name of a class to an instance of it."""

import importlib
from contextlib import suppress

from quota.callbacks.interface import ClientQuotaCallback
from quota.errors import BadInput
from quota.records.callback import Callbacks, CallbackSetting

_SHOWN = 300  # characters of what a callback says when it fails

_METHODS = (
    "configure",
    "quota_metric_tags",
    "quota_limit",
    "update_quota",
    "remove_quota",
    "quota_reset_required",
    "update_cluster_metadata",
    "close",
)


RAISED = (Exception, SystemExit)
"""What someone else's code may raise without ending the program."""


def load(class_name: str) -> type[ClientQuotaCallback]:
    """Import a class; whatever that raises is left to the caller.

    Raises:
        TypeError: it is no class, or lacks a method.
    """
    module, dot, name = class_name.rpartition(".")
    if not dot:
        raise TypeError("expected the full name of a class, as in package.module.Class")
    found = getattr(importlib.import_module(module), name)
    missing = [method for method in _METHODS if not callable(getattr(found, method, None))]
    if not isinstance(found, type) or missing:
        lacks = f": it has no {missing[0]}" if missing else ""
        raise TypeError(f"not a ClientQuotaCallback{lacks}")
    return found


def check_callbacks(callbacks: Callbacks) -> None:
    """Try the callbacks of the settings, so that what is wrong with them is known before a job starts.

    Raises:
        BadInput: a class cannot be imported, made or configured; with its name and the reason.
    """
    for class_name in callbacks.more_classes:
        try:
            load(class_name)
        except RAISED as error:
            raise BadInput(f"callback {class_name}: {described(error)}") from None
    check_setting(callbacks.setting)


def check_setting(setting: CallbackSetting) -> None:
    """Try a callback and its configs.

    Raises:
        BadInput: with the name of the class and the reason.
    """
    if setting.is_default and setting.configs:
        raise BadInput(f"callback {setting.class_name}: has no configs, got {min(setting.configs)}")
    try:
        callback = load(setting.class_name)()
        callback.configure(setting.configs)
    except RAISED as error:
        raise BadInput(f"callback {setting.class_name}: {described(error)}") from None
    with suppress(*RAISED):
        callback.close()


def described(error: BaseException) -> str:
    """What a callback raised, in one line that fits everywhere."""
    try:
        text = str(error)
    except RAISED:
        text = "(cannot be shown)"
    line = " ".join(text.encode(errors="replace").decode().split())
    return f"{type(error).__name__}: {line[:_SHOWN]}" if line else type(error).__name__
