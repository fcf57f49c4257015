"""Requests of a client, as messages of Kafka's protocol."""

from tests.unit.gateway.cluster import NO_ID


def topic(name, partitions=3, **more):
    return {"name": name, "numPartitions": partitions, "replicationFactor": 1, "assignments": [], "configs": [], **more}


def creation(*topics, **more):
    """Return a CreateTopics request for topics, or for their names."""
    created = [topic(each) if isinstance(each, str) else each for each in topics]
    return {"topics": created, "timeoutMs": 30_000, "validateOnly": False, **more}


def deletion(*topics, **more):
    """Return a DeleteTopics request for topics by their names, or by their ids."""
    named = [
        {"name": None, "topicId": each} if isinstance(each, bytes) else {"name": each, "topicId": NO_ID}
        for each in topics
    ]
    return {"topics": named, "timeoutMs": 30_000, **more}


def growth(*, validate_only=False, **counts):
    topics = [{"name": name, "count": count, "assignments": None} for name, count in counts.items()]
    return {"topics": topics, "timeoutMs": 30_000, "validateOnly": validate_only}


def metadata(*names):
    topics = [{"name": name, "topicId": NO_ID} for name in names]
    return {"topics": topics, "allowAutoTopicCreation": False}
