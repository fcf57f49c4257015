"""Requests of a client, as messages of Kafka's protocol."""

NO_ID = bytes(16)
"""The id of a topic that is named."""


def topic(name, partitions=3, replicas=1, **more):
    named = {"name": name, "numPartitions": partitions, "replicationFactor": replicas}
    return named | {"assignments": [], "configs": []} | more


def creation(*topics, partitions=3, **more):
    """Return a CreateTopics request for topics, or for their names."""
    created = [topic(given, partitions) if isinstance(given, str) else given for given in topics]
    return {"topics": created, "timeoutMs": 30_000, "validateOnly": False, **more}


def deletion(*topics, **more):
    """Return a DeleteTopics request for topics by their names, or by their ids."""
    named = [
        {"name": None, "topicId": given} if isinstance(given, bytes) else {"name": given, "topicId": NO_ID}
        for given in topics
    ]
    return {"topics": named, "timeoutMs": 30_000, **more}


def growth(*, validate_only=False, **counts):
    """Return a CreatePartitions request; an underscore in a keyword is a hyphen in the topic's name."""
    topics = [{"name": name.replace("_", "-"), "count": count, "assignments": None} for name, count in counts.items()]
    return {"topics": topics, "timeoutMs": 30_000, "validateOnly": validate_only}


def metadata(*names):
    topics = [{"name": name, "topicId": NO_ID} for name in names]
    return {"topics": topics, "allowAutoTopicCreation": False}
