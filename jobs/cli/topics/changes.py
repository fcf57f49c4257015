"""Makes topic changes of the command line, and reports their outcomes."""

import logging
from collections.abc import Sequence
from concurrent.futures import wait
from typing import Self

import typer
from confluent_kafka import KafkaException

from jobs.cli.options import TopicPattern
from jobs.cli.output import OutputOptions, print_text
from quota.errors import NotFound, interrupts_saying
from quota.kafka.admin.calls import Futures, TopicFuture
from quota.kafka.admin.client import QuotaAdminClient
from quota.kafka.admin.errors import ThrottlingQuotaExceededError
from quota.kafka.admin.options import ClientOptions
from quota.kafka.clients import cluster_errors, reason
from quota.kafka.timing import now_ms
from quota.kafka.topics.specs import user_topic_names
from quota.settings import Settings
from quota.text import format_duration, format_time, plural
from schemas.documents import topics as documents
from schemas.documents.topics import TopicChange

FAILED, REJECTED = 1, 3
"""Exit codes: a change failed; no change failed, but the quota rejected one."""

_INTERNAL = "__"
"""The beginning of the names of Kafka's internal topics."""

_SILENT_SECONDS = 3.0
"""The time after which the command logs what it waits for."""

_log = logging.getLogger(__name__)


class TopicChanges:
    """A connection that changes topics, and reports the outcomes."""

    def __init__(self, settings: Settings, output: OutputOptions) -> None:
        self._settings = settings
        self._output = output
        self.admin = QuotaAdminClient(ClientOptions.from_settings(settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.admin.close(wait=False)

    def partition_counts(self) -> dict[str, int]:
        """Return the number of partitions of each topic, by name."""
        target = self._settings.target_connection
        with cluster_errors(f"reach Kafka at {target}", target):
            topics = self.admin.list_topics(timeout=self._settings.kafka.timeout_seconds).topics
        return {name: len(topic.partitions) for name, topic in sorted(topics.items())}

    def matching(self, pattern: TopicPattern, *, allow_none: bool) -> dict[str, int]:
        """Return the topics that match a pattern as in kafka-topics.sh, and their numbers of partitions.

        Kafka's internal topics and those of this program match only their exact names.
        """
        counts = self.partition_counts()
        own = {*self._settings.topics.names, *user_topic_names(counts, self._settings)}
        matched = {
            name: count
            for name, count in counts.items()
            if pattern.names(name) or (pattern.matches(name) and name not in own and not name.startswith(_INTERNAL))
        }
        for name in own & matched.keys():
            _log.warning("topic %s belongs to mutation-quota, whose services fail without it", name)
        if not matched:
            none = f"no topic matches {pattern.text} on {self._settings.target_connection}"
            if not allow_none:
                raise NotFound(none)
            self.skip(none)
        return matched

    def skip(self, why: str) -> None:
        """Log why nothing is changed."""
        _log.info("%s: nothing was changed", why)

    def preview(self, done: str, names: Sequence[str]) -> None:
        """Print the changes that would be made."""
        self._print([TopicChange(name, f"would be {done}") for name in names])

    def _print(self, results: Sequence[TopicChange]) -> None:
        def table() -> None:
            for result in results:
                print_text(_line(result))
            rejections = dict.fromkeys(result.decision_id for result in results if result.outcome == "rejected")
            commands = [f"  mutation-quota explain {decision_id}" for decision_id in rejections if decision_id]
            if commands:  # each on its own line, which is not wrapped, so that it can be copied
                print("Explained by:", *commands, sep="\n")

        self._output.print(documents.TopicChanges(list(results)), table, items="topics")

    def report(self, done: str, futures: Futures) -> None:
        """Wait for the changes, print the result of each, and exit with their common exit code."""
        _, waiting = wait(futures.values(), _SILENT_SECONDS)
        if waiting:
            names = [name for name, future in futures.items() if future in waiting]
            _log.info("%s", waiting_line(names, self._settings))
        with interrupts_saying(lambda: _interrupted(done, futures)):
            results = [_result(name, future, done) for name, future in futures.items()]
        self._print(results)
        outcomes = {result.outcome for result in results}
        if "failed" in outcomes:
            raise typer.Exit(FAILED)
        if "rejected" in outcomes:
            raise typer.Exit(REJECTED)


def waiting_line(names: Sequence[str], settings: Settings) -> str:
    """Return the log line for changes that are not completed yet: what they wait for, and which jobs must run."""
    which = f"topic {names[0]}" if len(names) == 1 else f"{len(names)} topics"
    servers, target = settings.kafka.bootstrap_servers, settings.target_connection.servers
    question = f"is mutation-quota enforce running on {servers}"
    if settings.client.applied_by == "applier":
        question = f"are mutation-quota enforce and mutation-quota applier running on {servers}"
    elif target != servers:
        question += f", and does {target} answer"
    return f"waiting for {which}: {question}? Ctrl-C stops waiting"


def _result(topic: str, future: TopicFuture, done: str) -> TopicChange:
    match error := future.exception():
        case None:
            until = future.throttled_until
            wait = 0 if until is None else max(0, until - now_ms())
            return TopicChange(topic, done, None, wait, until if wait else None, future.decision_id)
        case ThrottlingQuotaExceededError(throttle_time_ms=wait, retry_at=retry_at):
            at = now_ms() + wait if retry_at is None else retry_at
            return TopicChange(topic, "rejected", "THROTTLING_QUOTA_EXCEEDED", wait, at, future.decision_id)
        case KafkaException():
            return TopicChange(topic, "failed", reason(error), decision_id=future.decision_id)
        case _:
            raise error


def _interrupted(done: str, futures: Futures) -> str:
    """Return which changes are completed, and what may become of the others."""
    finished = [name for name, future in futures.items() if future.done() and future.exception() is None]
    others = len(futures) - len(finished)
    return f"{len(finished):,} of {plural(len(futures), 'topic')} {done}; {others:,} may still be, if they are admitted"


def _line(result: TopicChange) -> str:
    when = f"{format_duration(result.throttle_time_ms)}, at {format_time(result.retry_at or 0)}"
    if result.outcome == "rejected":
        return f"Topic {result.topic} rejected: the mutation quota is exhausted; try again in {when}."
    if result.outcome == "failed":
        return f"Topic {result.topic} failed: {result.error}"
    if result.outcome == "valid":
        return f"Topic {result.topic} is valid; nothing was changed."
    if result.outcome.startswith("would be"):
        return f"Topic {result.topic} {result.outcome}."
    overdrawn = f" This overdrew the mutation quota: try further changes in {when}." if result.throttle_time_ms else ""
    return f"{result.outcome.capitalize()} topic {result.topic}.{overdrawn}"
