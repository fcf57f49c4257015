"""Callbacks, loaded by name, checked and called: their code and its results are not trusted.

An instance receives the changes of the quota log, and resolves requests.
"""

import atexit
import importlib
import logging
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from quota.callbacks.interface import (
    ClientQuotaCallback,
    ClientQuotaEntity,
    ClientQuotaType,
    KafkaPrincipal,
    QuotaValue,
)
from quota.errors import BadInput, BadRecord
from quota.records import codec
from quota.records.entity import NO_TAGS, QuotaEntity, Tags
from quota.records.levels import levels
from quota.records.quota_log import Callbacks, CallbackSetting, Cluster, Quota
from quota.timeline.timeline import MAX_CACHED_NAME

_log = logging.getLogger(__name__)

MAX_MORE_TAGS = 6
MAX_MORE_BYTES = 1024
"""The maximum size of the tags beyond that of the user's and client-id's names, as JSON [bytes]."""

_ERROR_PREFIX = "callback: "
"""The beginning of the error of a dead letter that a callback caused."""

_TYPE = ClientQuotaType.CONTROLLER_MUTATION
_MAX_CACHED = 100_000

_MAX_SHOWN = 300  # characters of a callback's error message

_METHODS = [name for name in vars(ClientQuotaCallback) if not name.startswith("_")]

_EXCEPTIONS = (Exception, SystemExit)
"""The exceptions of a callback that must not end the program."""

_open_instances: set["CallbackInstance"] = set()


def _load(class_name: str) -> type[ClientQuotaCallback]:
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
            _load(class_name)
        except _EXCEPTIONS as error:
            raise BadInput(f"callback {class_name}: {_describe(error)}") from None
    check_setting(callbacks.setting)


def check_setting(setting: CallbackSetting) -> None:
    """Check a callback and its configs: import, instantiate, configure and close it."""
    if setting.is_default and setting.configs:
        raise BadInput(f"callback {setting.class_name}: takes no configs, got {min(setting.configs)}")
    try:
        callback = _load(setting.class_name)()
        callback.configure(setting.configs)
    except _EXCEPTIONS as error:
        raise BadInput(f"callback {setting.class_name}: {_describe(error)}") from None
    with suppress(*_EXCEPTIONS):
        callback.close()


def _describe(error: BaseException) -> str:
    """Return an exception of a callback as a line of valid UTF-8: its type, and up to 300 characters of its message."""
    try:
        text = str(error)
    except _EXCEPTIONS:
        text = "(cannot be shown)"
    line = " ".join(text.encode(errors="replace").decode().split())
    return f"{type(error).__name__}: {line[:_MAX_SHOWN]}" if line else type(error).__name__


class CallbackError(BadRecord):
    """An exception or an invalid result of a callback; the message names the class and the method."""


class CallbackInstance:
    """A callback, the changes that it failed to process, and a cache of its limits.

    If a method raises on a change of the quota log, the requests that the change concerns fail with that error
    until a later change of the same subject succeeds.
    """

    def __init__(self, setting: CallbackSetting, *, allowed: bool, since: int, position: int) -> None:
        """Create the instance and configure it; if its class is not allowed, all requests fail with that error."""
        self.class_name = setting.class_name
        self.since = since
        """The time since which its class has been in force [epoch ms]."""
        self.position = position
        """The number of events of the timeline that it has received."""
        self._callback: ClientQuotaCallback | None = None
        self._failures: dict[str | QuotaEntity, str] = {}
        self._limits: dict[Tags, tuple[Quota, QuotaEntity | None] | None] = {}
        _open_instances.add(self)
        if not allowed:
            message = f"{_ERROR_PREFIX}quota.callback_classes lacks {self.class_name}"
            self._record_failure("configure", CallbackError(message))
            return
        try:
            self._callback = _load(setting.class_name)()
        except _EXCEPTIONS as error:
            self._record_failure("configure", self._error("__init__", f"raised {_describe(error)}"))
        self.configure(setting.configs)

    @property
    def has_failures(self) -> bool:
        """Whether a change is still unprocessed, because a method raised on it."""
        return bool(self._failures)

    def configure(self, configs: Mapping[str, str]) -> None:
        """Pass the configs to the callback, initially and after a change."""
        self._notify("configure", "configure", dict(configs))
        self._limits.clear()

    def set_quota(self, entity: QuotaEntity, quota: Quota | None) -> None:
        """Pass a quota to the callback; None if it was removed."""
        quota_entity = ClientQuotaEntity.of(entity)
        if quota is None:
            self._notify(entity, "remove_quota", _TYPE, quota_entity)
        else:
            self._notify(entity, "update_quota", _TYPE, quota_entity, QuotaValue(quota, entity))
        self._limits.clear()

    def set_cluster(self, cluster: Cluster) -> None:
        """Pass the cluster's metadata to the callback."""
        if self._notify("cluster", "update_cluster_metadata", cluster) is not False:
            self._limits.clear()

    def resolve(self, user: str, client_id: str) -> tuple[Tags, Quota | None, QuotaEntity | None]:
        """Return the tags and the quota of a request, which is unlimited without one, and the quota's entity."""
        if self._failures:
            self._raise_failure(user, client_id)
        if self._call("quota_reset_required", _TYPE):
            self._limits.clear()
        result = self._call("quota_metric_tags", _TYPE, KafkaPrincipal("User", user), client_id)
        tags = self._valid_tags(result, _json_bytes(user, client_id) + MAX_MORE_BYTES)
        if tags == NO_TAGS:
            return NO_TAGS, None, None
        limit = self._limits[tags] if tags in self._limits else self._limit(result, tags)
        return (tags, *limit) if limit else (NO_TAGS, None, None)

    def close(self) -> None:
        """Close the callback; an exception is logged."""
        _open_instances.discard(self)
        if self._callback is not None:
            self._notify("close", "close")
            self._callback = None

    def _raise_failure(self, user: str, client_id: str) -> None:
        """Raise the error of a failed change that concerns this user and client-id, if there is one."""
        for subject in ("configure", "cluster", *(entity for entity, _ in levels(user, client_id))):
            if subject in self._failures:
                raise CallbackError(self._failures[subject])

    def _valid_tags(self, result: object, max_bytes: int) -> Tags:
        try:
            tags = {str(name): str(value) for name, value in dict(result).items() if value}  # type: ignore[call-overload]
            size = _json_bytes(*tags, *tags.values())
        except _EXCEPTIONS:
            raise self._invalid("quota_metric_tags", result, "a dict of strings") from None
        user, client_id = tags.pop("user", ""), tags.pop("client-id", "")
        if len(tags) > MAX_MORE_TAGS or size > max_bytes:
            limits = f"{MAX_MORE_TAGS} tags besides user and client-id, and {MAX_MORE_BYTES} bytes more than the names"
            raise self._invalid("quota_metric_tags", result, f"at most {limits}")
        return Tags(user, client_id, tuple(sorted(tags.items())))

    def _limit(self, metric_tags: object, tags: Tags) -> tuple[Quota, QuotaEntity | None] | None:
        result = self._call("quota_limit", _TYPE, metric_tags)
        limit = None if result is None else self._valid_limit(result, len(tags.key) + MAX_MORE_BYTES)
        if len(tags.key) <= MAX_CACHED_NAME:
            if len(self._limits) >= _MAX_CACHED:
                self._limits.clear()
            self._limits[tags] = limit
        return limit

    def _valid_limit(self, result: object, max_bytes: int) -> tuple[Quota, QuotaEntity | None]:
        try:
            quota = result.quota if isinstance(result, QuotaValue) else Quota(result)  # type: ignore[arg-type]
            quota = msgspec.convert(quota.configs, Quota)
            entity = result.entity if isinstance(result, QuotaValue) else None
            if entity is not None and len(entity.key) > max_bytes:
                entity = None  # it would not fit into the decision
        except _EXCEPTIONS as error:
            expected = f"a number > 0, or None ({_describe(error)})"
            raise self._invalid("quota_limit", result, expected) from None
        return quota, entity

    def _call(self, method: str, *arguments: object) -> object:
        try:
            result: object = getattr(self._callback, method)(*arguments)
        except _EXCEPTIONS as error:
            raise self._error(method, f"raised {_describe(error)}") from error
        return result

    def _notify(self, subject: str | QuotaEntity, method: str, *arguments: object) -> object:
        """Call a method for a change of a subject, and record or clear the subject's failure."""
        if self._callback is None:
            return None
        try:
            result = self._call(method, *arguments)
        except CallbackError as error:
            self._record_failure(subject, error)
            return None
        self._failures.pop(subject, None)
        return result

    def _record_failure(self, subject: str | QuotaEntity, error: CallbackError) -> None:
        self._failures[subject] = str(error)
        _log.warning("%s", error)

    def _invalid(self, method: str, result: object, expected: str) -> CallbackError:
        try:
            shown = repr(result)[:100]
        except _EXCEPTIONS:
            shown = type(result).__name__
        return self._error(method, f"returned {shown}: expected {expected}")

    def _error(self, method: str, problem: str) -> CallbackError:
        return CallbackError(f"{_ERROR_PREFIX}{self.class_name}.{method} {problem}")


def close_callbacks() -> None:
    """Close all open instances, at the end of the process."""
    for instance in list(_open_instances):
        instance.close()


atexit.register(close_callbacks)


def _json_bytes(*texts: str) -> int:
    return len(codec.encode(texts))
