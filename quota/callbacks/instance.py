"""One instance of a callback: told what the log says, asked for tags and limits, and never trusted."""

import atexit
import logging
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from quota.callbacks.interface import (
    ClientQuotaCallback,
    ClientQuotaEntity,
    ClientQuotaType,
    KafkaPrincipal,
    QuotaValue,
)
from quota.callbacks.loading import RAISED, described, load
from quota.errors import BadRecord
from quota.records import codec
from quota.records.callback import CallbackSetting
from quota.records.entity import NO_TAGS, QuotaEntity, Tags, levels
from quota.records.fields import DebtMs, Positive
from quota.records.quota import Quota
from quota.records.quota_log import Cluster
from quota.timeline.timeline import CACHED_NAME

_log = logging.getLogger(__name__)

MAX_MORE_TAGS = 6
TAGS_BYTES = 1024
"""How much longer tags may be than the names of the user and the client-id, as JSON."""

CALLBACK_FAILED = "callback: "
"""What the error of such a dead letter begins with."""

_TYPE = ClientQuotaType.CONTROLLER_MUTATION
_CACHED = 100_000

_open: set["CallbackInstance"] = set()


class CallbackError(BadRecord):
    """A callback raised, or answered what cannot be used; the message names it and the method."""


class CallbackAnswer(NamedTuple):
    """What a callback says of a request; no quota is no limit."""

    tags: Tags
    quota: Quota | None
    entity: QuotaEntity | None


class _Usable(msgspec.Struct):
    """What the options of a limit have to be."""

    rate: Positive
    burst: Positive | None
    max_debt_ms: DebtMs | None
    shadow: bool


class CallbackInstance:
    """An instance, what it has failed to take, and the limits that it gave.

    What a method raises while the log is read is held against the requests that it concerns, until the same
    subject is told again and taken.
    """

    def __init__(self, setting: CallbackSetting, *, allowed: bool) -> None:
        """Make an instance and configure it.

        Args:
            setting: the class and its configs.
            allowed: whether the class may be imported; if not, all requests have that as their error.
        """
        self.class_name = setting.class_name
        self._callback: ClientQuotaCallback | None = None
        self._failures: dict[str | QuotaEntity, str] = {}
        self._limits: dict[Tags, tuple[Quota, QuotaEntity | None] | None] = {}
        _open.add(self)
        if not allowed:
            self._fail("configure", CallbackError(f"{CALLBACK_FAILED}quota.callback_classes lacks {self.class_name}"))
            return
        try:
            self._callback = load(setting.class_name)()
        except RAISED as error:
            self._fail("configure", CallbackError(self._failure("__init__", f"raised {described(error)}")))
        self.configure(setting.configs)

    @property
    def is_well(self) -> bool:
        """Whether it has taken all that it was told."""
        return not self._failures

    def configure(self, configs: Mapping[str, str]) -> None:
        """Give it its configs, the first ones or others."""
        self._tell("configure", "configure", dict(configs))
        self._limits.clear()

    def set_quota(self, entity: QuotaEntity, quota: Quota | None) -> None:
        """Tell it of a quota that was set, or removed."""
        told = ClientQuotaEntity.of(entity)
        if quota is None:
            self._tell(entity, "remove_quota", _TYPE, told)
        else:
            self._tell(entity, "update_quota", _TYPE, told, QuotaValue(quota, entity))
        self._limits.clear()

    def set_cluster(self, cluster: Cluster) -> None:
        """Tell it what the cluster consists of."""
        if self._tell("cluster", "update_cluster_metadata", cluster) is not False:
            self._limits.clear()

    def judge(self, user: str, client_id: str) -> CallbackAnswer:
        """Ask who shares the quota of a request, and how much it is.

        Raises:
            CallbackError: with the reason, for the dead letter.
        """
        self._check(user, client_id)
        if self._call("quota_reset_required", _TYPE):
            self._limits.clear()
        given = self._call("quota_metric_tags", _TYPE, KafkaPrincipal("User", user), client_id)
        tags = self._tags(given, _bytes(user, client_id) + TAGS_BYTES)
        if tags == NO_TAGS:
            return CallbackAnswer(NO_TAGS, None, None)
        limit = self._limits[tags] if tags in self._limits else self._limit(given, tags)
        return CallbackAnswer(tags, *limit) if limit else CallbackAnswer(NO_TAGS, None, None)

    def close(self) -> None:
        """Close the instance; what that raises is logged."""
        _open.discard(self)
        if self._callback is not None:
            self._tell("close", "close")
            self._callback = None

    def _check(self, user: str, client_id: str) -> None:
        if not self._failures:
            return
        for subject in ("configure", "cluster", *(entity for entity, _ in levels(user, client_id))):
            if subject in self._failures:
                raise CallbackError(self._failures[subject])

    def _tags(self, given: object, max_bytes: int) -> Tags:
        try:
            tags = {str(name): str(value) for name, value in dict(given).items() if value}  # type: ignore[call-overload]
            size = _bytes(*tags, *tags.values())
        except RAISED:
            raise self._unusable("quota_metric_tags", given, "a dict of texts") from None
        user, client_id = tags.pop("user", ""), tags.pop("client-id", "")
        if len(tags) > MAX_MORE_TAGS or size > max_bytes:
            expected = (
                f"at most {MAX_MORE_TAGS} tags besides user and client-id, and {TAGS_BYTES} bytes more than the names"
            )
            raise self._unusable("quota_metric_tags", given, expected)
        return Tags(user, client_id, tuple(sorted(tags.items())))

    def _limit(self, given: object, tags: Tags) -> tuple[Quota, QuotaEntity | None] | None:
        value = self._call("quota_limit", _TYPE, given)
        limit = None if value is None else self._usable(value, len(tags.key) + TAGS_BYTES)
        if len(tags.key) <= CACHED_NAME:
            if len(self._limits) >= _CACHED:
                self._limits.clear()
            self._limits[tags] = limit
        return limit

    def _usable(self, value: object, max_bytes: int) -> tuple[Quota, QuotaEntity | None]:
        try:
            quota = value.quota if isinstance(value, QuotaValue) else Quota(value)  # type: ignore[arg-type]
            usable = msgspec.convert(quota, _Usable, from_attributes=True)
            entity = value.entity if isinstance(value, QuotaValue) else None
            if entity is not None and len(entity.key) > max_bytes:
                entity = None  # it would not fit into the decision
        except RAISED as error:
            expected = f"a number > 0, or None ({described(error)})"
            raise self._unusable("quota_limit", value, expected) from None
        return Quota(usable.rate, usable.burst, usable.max_debt_ms, usable.shadow), entity

    def _call(self, method: str, *arguments: object) -> object:
        try:
            answer: object = getattr(self._callback, method)(*arguments)
        except RAISED as error:
            raise CallbackError(self._failure(method, f"raised {described(error)}")) from error
        return answer

    def _tell(self, subject: str | QuotaEntity, method: str, *arguments: object) -> object:
        if self._callback is None:
            return None
        try:
            answer = self._call(method, *arguments)
        except CallbackError as error:
            self._fail(subject, error)
            return None
        self._failures.pop(subject, None)
        return answer

    def _fail(self, subject: str | QuotaEntity, error: CallbackError) -> None:
        self._failures[subject] = str(error)
        _log.warning("%s", error)

    def _unusable(self, method: str, answer: object, expected: str) -> CallbackError:
        try:
            shown = repr(answer)[:100]
        except RAISED:
            shown = type(answer).__name__
        return CallbackError(self._failure(method, f"answered {shown}: expected {expected}"))

    def _failure(self, method: str, what: str) -> str:
        return f"{CALLBACK_FAILED}{self.class_name}.{method} {what}"


def close_callbacks() -> None:
    """Close all that are open: the process ends."""
    for each in list(_open):
        each.close()


atexit.register(close_callbacks)


def _bytes(*texts: str) -> int:
    return len(codec.encode(texts))
