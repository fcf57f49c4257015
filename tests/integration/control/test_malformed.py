"""Malformed records of all types in all topics, while everything that reads them works."""

import threading
from contextlib import ExitStack, closing

from jobs.background import background
from jobs.dashboard.feed import Feed
from jobs.dashboard.state import View
from jobs.metrics.collector import AnswerMetrics
from quota.kafka.applier import Applier
from quota.kafka.reading import Skipped, read_topic
from quota.kafka.requests_and_answers import AnswerReader
from quota.kafka.timing import now_ms
from quota.kafka.topics.preparation import prepare_topics
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.entity import QuotaEntity
from quota.records.quota_log import CallbackRecord, QuotaRecord
from quota.records.record import Source
from tests.support.factories import decided, read_result
from tests.support.malformed import all_malformed
from tests.support.monitoring import samples
from tests.support.topics import produce
from tests.support.waiting import until

PREFIX = "app-"
LETTER = DeadLetter(error="topics: missing", value="{}", timestamp=None, source=Source("mutation-requests", 0, 7))
QUOTA = QuotaRecord(QuotaEntity("a tenant"), 7.0)


def test_every_reader_skips_malformed_records_and_processes_all_others(deployment, command, caplog):
    prepare_topics(deployment)
    topics, malformed, group = deployment.topics, all_malformed(), deployment.applier.group.encode()
    before = Skipped.counts.copy()
    own = {"name": f"{topics.decisions}-made", "partitions": 2}
    decision = decided(at=now_ms(), user="a tenant", request_id=f"{PREFIX}1", topics=[own])
    stop, feed, received = threading.Event(), Feed(deployment), []
    with ExitStack() as stack:
        client = stack.enter_context(closing(AnswerReader(deployment, request_id_prefix=PREFIX)))
        metrics = stack.enter_context(closing(AnswerMetrics(deployment)))
        applier = Applier(deployment, stop)
        stack.enter_context(background(lambda _: applier.run(), "applier"))
        stack.callback(stop.set)
        stack.enter_context(background(feed.follow, "feed"))
        until(lambda: feed.contact.state == "live")

        produce(deployment, topics.decisions, *malformed, codec.encode(decision), *malformed[:500])
        produce(deployment, topics.dead_letters, *malformed, codec.encode(LETTER), *malformed[:500])
        produce(deployment, topics.results, *malformed)
        produce(deployment, topics.quotas, *malformed, codec.encode(CallbackRecord(None)), codec.encode(QUOTA))
        produce(deployment, topics.positions, *malformed, key=group)

        def answered():
            received.extend(new.answer for new in client.read())
            return decision in received and LETTER in received

        until(answered, 60)

        def results():
            values = [message.value() or b"" for message in read_topic(deployment.kafka.connection, topics.results, 10)]
            return [read_result(value) for value in values if f'"request_id":"{PREFIX}1"'.encode() in value]

        (result,) = until(results, 60)
        assert [(topic.name, topic.error) for topic in result.topics] == [(own["name"], "NONE")]

        def shown():
            news = feed.state.news(View(), now_ms())
            assert codec.encode(news)
            return [summary for summary in news["decisions"] if summary.user == "a tenant"]

        until(shown, 60)

        def counted():
            metrics.poll()
            return (
                samples(metrics.families())["mutation_quota_topics_total", ("outcome", "admitted"), ("reason", "")] > 0
            )

        until(counted, 60)
        assert feed.contact.state == "live"

    again = Applier(deployment, threading.Event())  # reads the results and the positions, malformed ones included
    again.run(once=True)
    assert again.stats.topics == 0

    produce(deployment, topics.positions, *malformed[:500], key=group)
    status = command("status", "--output", "json", exit_code=1)  # nothing decides or audits here
    assert "applier" in [query["name"] for query in status["queries"]]
    letters = command("dead-letters", "list", "--output", "json")["dead_letters"]
    assert str(LETTER.source) in [letter["id"] for letter in letters]
    resolved = command("quotas", "resolve", "--user", "a tenant", "--output", "json")
    assert resolved["quota"]["controller_mutation_rate"] == 7.0
    assert command("quotas", "history", "--output", "json")["changes"]
    skipped = Skipped.counts - before
    names = (topics.decisions, topics.dead_letters, topics.results, topics.quotas, topics.positions)
    assert {name: skipped[name] > 500 for name in names} == dict.fromkeys(names, True)
    lines = [message for message in caplog.messages if message.startswith("skipped ")]
    assert len(names) <= len(lines) < 100
