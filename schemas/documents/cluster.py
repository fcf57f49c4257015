"""Documents on callbacks, the cluster's metadata, and users' topics."""

import msgspec

from quota.records.quota_log import CallbackSetting


class ScheduledCallback(msgspec.Struct, frozen=True):
    """A scheduled change of the callback."""

    callback: CallbackSetting | None
    """The callback after the change; null for the one in the settings."""
    effective_at: int
    """The time at which it takes effect, epoch ms."""


class Callback(msgspec.Struct, frozen=True):
    """The output of `callback describe`."""

    callback: CallbackSetting
    scheduled: list[ScheduledCallback]


class CallbackChange(msgspec.Struct, frozen=True):
    """The output of `callback alter`."""

    callback: CallbackSetting | None
    """The callback after the change; null for the one in the settings."""
    effective_at: int | None
    """The time at which it took effect, epoch ms; null if nothing had to change."""


class PublishedCluster(msgspec.Struct, frozen=True):
    """The output of `callback publish-metadata`."""

    applied: bool
    """Whether the metadata was written; false if it has not changed."""
    effective_at: int | None
    """The time at which it took effect, epoch ms; null if it has not changed."""
    topic_count: int
    partition_count: int


class UserTopic(msgspec.Struct, frozen=True):
    """The request topic of a user."""

    user: str
    topic: str
    acl: str
    """The kafka-acls.sh command that lets only this user write to it."""


class UserTopics(msgspec.Struct, frozen=True):
    """The output of `user-topics prepare`."""

    topics: list[UserTopic]
