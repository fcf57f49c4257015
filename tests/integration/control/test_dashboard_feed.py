"""The records that the dashboard reads from a broker."""

from jobs.background import background
from jobs.dashboard import feed as feeds
from jobs.dashboard.feed import Feed
from jobs.dashboard.state import View
from quota.kafka.timing import now_ms
from quota.kafka.topics.preparation import prepare_topics
from quota.records import codec
from tests.support.clients import admin_of
from tests.support.factories import decided
from tests.support.topics import produce
from tests.support.waiting import until


def test_a_recreated_decisions_topic_is_read_from_its_beginning(deployment, monkeypatch):
    """Its records have the offsets of those that were read before it was deleted."""
    monkeypatch.setattr(feeds, "_CHECK_SECONDS", 0.2)
    prepare_topics(deployment)
    topic = deployment.topics.decisions
    feed = Feed(deployment)

    def decide(user):
        made = decided(1, at=now_ms(), user=user)
        produce(deployment, topic, codec.encode(made))

    def shown():
        news = feed.state.news(View(), now_ms())
        return [summary.user for summary in news["decisions"]]

    with background(feed.follow, "feed"):
        until(lambda: feed.contact.state == "live")
        decide("before")
        until(lambda: shown() == ["before"])
        admin = admin_of(deployment)
        admin.delete_topics([topic])[topic].result()
        until(lambda: topic not in admin.list_topics(timeout=10).topics)
        prepare_topics(deployment)
        decide("after")
        until(lambda: shown() == ["after"])
