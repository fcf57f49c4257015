"""Changes of topics by the command line: what is to be changed, and what became of it."""

import re
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import msgspec
import typer
from confluent_kafka import KafkaException

from jobs.cli.options import print_json
from quota.errors import BadInput, ClusterError, MutationQuotaError
from quota.kafka.admin.client import QuotaAdminClient
from quota.kafka.admin.dispatcher import Futures
from quota.kafka.admin.errors import ThrottlingQuotaExceededError
from quota.kafka.admin.options import ClientOptions
from quota.kafka.clients import client_config, reason, unreachable
from quota.settings.model import Settings
from quota.text import format_time

FAILED, REFUSED = 1, 3
"""Exit codes: something went wrong; nothing but what the quota did not allow."""


@dataclass(frozen=True, slots=True)
class _Told:
    topic: str
    outcome: str
    error: str | None = None
    throttle_time_ms: int = 0
    retry_at: int | None = None


class TopicChanges:
    """Changes topics, prints what became of each, and ends the program with the exit code of it all."""

    def __init__(self, settings: Settings, *, as_json: bool) -> None:
        """Connect.

        Raises:
            ClusterError: a cluster cannot be reached, or lacks the topics.
        """
        self._settings = settings
        self._as_json = as_json
        self.admin = QuotaAdminClient(ClientOptions.from_settings(settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.admin.close(wait=False)

    def existing(self) -> dict[str, int]:
        """All topics, and how many partitions each has.

        Raises:
            ClusterError: the cluster cannot be reached.
        """
        try:
            topics = self.admin.list_topics(timeout=self._settings.kafka.timeout_seconds).topics
        except KafkaException as error:
            target = self._settings.target_connection
            why = unreachable(client_config(target), error)
            raise ClusterError(f"cannot reach Kafka at {target}: {why}") from None
        return {name: len(topic.partitions) for name, topic in sorted(topics.items())}

    def matching(self, pattern: str, *, none_is_fine: bool) -> dict[str, int]:
        """The topics that kafka-topics.sh takes a name for: a regular expression for all of it, commas as "or".

        Raises:
            BadInput: it is no regular expression.
            MutationQuotaError: no topic matches.
        """
        try:
            wanted = re.compile("|".join(part.strip() for part in pattern.split(",")))
        except re.error as error:
            raise BadInput(f"--topic {pattern}: no regular expression: {error}") from None
        found = {name: count for name, count in self.existing().items() if wanted.fullmatch(name)}
        if not found and not none_is_fine:
            raise MutationQuotaError(f"no topic matches {pattern} on {self._settings.target_connection}")
        return found

    def told(self, done: str, futures: Futures) -> None:
        """Wait for the topics, print what became of each, and end with the exit code of it all."""
        told = [_outcome(name, futures[name].exception(), done) for name in futures]
        if self._as_json:
            print_json({"topics": [msgspec.to_builtins(each) for each in told]})
        else:
            for each in told:
                print(_line(each), flush=True)
        outcomes = {each.outcome for each in told}
        if "failed" in outcomes:
            raise typer.Exit(FAILED)
        if "refused" in outcomes:
            raise typer.Exit(REFUSED)


def _outcome(name: str, error: BaseException | None, done: str) -> _Told:
    match error:
        case None:
            return _Told(name, done)
        case ThrottlingQuotaExceededError(throttle_time_ms=wait):
            return _Told(name, "refused", "THROTTLING_QUOTA_EXCEEDED", wait, int(time.time() * 1000) + wait)
        case KafkaException():
            return _Told(name, "failed", reason(error))
        case _:
            raise error


def _line(told: _Told) -> str:
    if told.outcome == "refused":
        when = f"try again in {told.throttle_time_ms / 1000:.1f} s, at {format_time(told.retry_at or 0)}"
        return f"Refused topic {told.topic}: the quota of mutations is used up; {when}."
    if told.outcome == "failed":
        return f"Failed topic {told.topic}: {told.error}"
    return f"{told.outcome.capitalize()} topic {told.topic}."
