"""One instance of a callback: told what the log says, asked for tags and limits, and never trusted."""

import atexit
import logging
import math
from collections.abc import Mapping
from typing import NamedTuple

from quota import codec
from quota.callbacks.interface import (
    ClientQuotaCallback,
    ClientQuotaEntity,
    ClientQuotaType,
    KafkaPrincipal,
    QuotaValue,
)
from quota.callbacks.loading import described, make
from quota.callbacks.setting import CallbackSetting
from quota.cluster import Cluster
from quota.entity import NO_TAGS, QuotaEntity, Tags, levels
from quota.errors import BadRecord
from quota.terms import Quota

_log = logging.getLogger(__name__)

MAX_MORE_TAGS = 6
TAGS_BYTES = 1024
"""How much longer tags may be than the names of the user and the client-id, as JSON."""

CALLBACK_FAILED = "callback: "
"""What the error of such a dead letter begins with."""

_TYPE = ClientQuotaType.CONTROLLER_MUTATION
_CACHED = 100_000

_open: set["RunningCallback"] = set()


class CallbackError(BadRecord):
    """A callback raised, or answered what cannot be used; the message names it and the method."""


class Judgement(NamedTuple):
    """What a callback says of a request; no quota is no limit."""

    tags: Tags
    quota: Quota | None
    entity: QuotaEntity | None


class RunningCallback:
    """An instance, what it has failed to take, and the limits that it gave.

    What a method raises while the log is read is held against the requests that it concerns, until the same
    subject is told again and taken.
    """

    def __init__(self, setting: CallbackSetting) -> None:
        """Make an instance and configure it."""
        self.class_name = setting.class_name
        self._callback: ClientQuotaCallback | None = None
        self._failures: dict[str | QuotaEntity, str] = {}
        self._limits: dict[Tags, tuple[Quota, QuotaEntity | None] | None] = {}
        _open.add(self)
        try:
            self._callback = make(setting.class_name)
        except Exception as error:  # noqa: BLE001 it is someone else's code
            self._failures["configure"] = self._failure("__init__", f"raised {described(error)}")
            _log.warning("%s", self._failures["configure"])
        self.configure(setting.configs)

    @property
    def is_made(self) -> bool:
        """Whether there is an instance to be told anything."""
        return self._callback is not None

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
        if self._tell("cluster", "update_cluster_metadata", cluster):
            self._limits.clear()

    def judge(self, user: str, client_id: str) -> Judgement:
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
            return Judgement(NO_TAGS, None, None)
        if tags not in self._limits:
            if len(self._limits) >= _CACHED:
                self._limits.clear()
            self._limits[tags] = self._limit(given, tags)
        limit = self._limits[tags]
        return Judgement(tags, *limit) if limit else Judgement(NO_TAGS, None, None)

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
        except Exception:  # noqa: BLE001 whatever it is, it is no mapping of texts
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
        if value is None:
            return None
        if not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
            raise self._unusable("quota_limit", value, "a number > 0, or None")
        if not isinstance(value, QuotaValue):
            return Quota(float(value)), None
        entity = value.entity
        if entity is not None and len(entity.key) > len(tags.key) + TAGS_BYTES:
            entity = None  # it would not fit into the decision
        return value.quota, entity

    def _call(self, method: str, *arguments: object) -> object:
        try:
            answer: object = getattr(self._callback, method)(*arguments)
        except Exception as error:  # it is someone else's code
            raise CallbackError(self._failure(method, f"raised {described(error)}")) from error
        return answer

    def _tell(self, subject: str | QuotaEntity, method: str, *arguments: object) -> object:
        if self._callback is None:
            return None
        try:
            answer = self._call(method, *arguments)
        except CallbackError as error:
            self._failures[subject] = str(error)
            _log.warning("%s", error)
            return None
        self._failures.pop(subject, None)
        return answer

    def _unusable(self, method: str, answer: object, expected: str) -> CallbackError:
        try:
            shown = repr(answer)[:100]
        except Exception:  # noqa: BLE001 it is someone else's object
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
