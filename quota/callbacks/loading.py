"""Loading of callback classes by name, and the check of the settings before a job starts."""

import importlib
from contextlib import suppress

from quota.callbacks.interface import ClientQuotaCallback
from quota.errors import BadInput
from quota.records.quota_log import Callbacks, CallbackSetting

_MAX_SHOWN = 300  # characters of a callback's error message

_METHODS = [name for name in vars(ClientQuotaCallback) if not name.startswith("_")]

CALLBACK_EXCEPTIONS = (Exception, SystemExit)
"""The exceptions of a callback that must not end the program."""


def load_callback(class_name: str) -> type[ClientQuotaCallback]:
    """Import the class of a callback; exceptions of the import propagate."""
    module, dot, name = class_name.rpartition(".")
    if not dot:
        raise TypeError("expected the full name of a class, as in package.module.Class")
    loaded = getattr(importlib.import_module(module), name)
    missing = [method for method in _METHODS if not callable(getattr(loaded, method, None))]
    if not isinstance(loaded, type) or missing:
        lacks = f": it has no {missing[0]}" if missing else ""
        raise TypeError(f"not a ClientQuotaCallback{lacks}")
    return loaded


def check_callbacks(callbacks: Callbacks) -> None:
    """Check the callbacks of the settings, so that a job with a bad one does not start."""
    for class_name in callbacks.more_classes:
        try:
            load_callback(class_name)
        except CALLBACK_EXCEPTIONS as error:
            raise BadInput(f"callback {class_name}: {describe_error(error)}") from None
    check_setting(callbacks.setting)


def check_setting(setting: CallbackSetting) -> None:
    """Check a callback and its configs: import, instantiate, configure and close it."""
    if setting.is_default and setting.configs:
        raise BadInput(f"callback {setting.class_name}: takes no configs, got {min(setting.configs)}")
    try:
        callback = load_callback(setting.class_name)()
        callback.configure(setting.configs)
    except CALLBACK_EXCEPTIONS as error:
        raise BadInput(f"callback {setting.class_name}: {describe_error(error)}") from None
    with suppress(*CALLBACK_EXCEPTIONS):
        callback.close()


def describe_error(error: BaseException) -> str:
    """Return an exception of a callback as a line of valid UTF-8: its type, and up to 300 characters of its message."""
    try:
        text = str(error)
    except CALLBACK_EXCEPTIONS:
        text = "(cannot be shown)"
    line = " ".join(text.encode(errors="replace").decode().split())
    return f"{type(error).__name__}: {line[:_MAX_SHOWN]}" if line else type(error).__name__
