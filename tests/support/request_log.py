"""Lines of a broker's request log, as Kafka 4.2 writes them."""

import json

NAMES = {19: "CREATE_TOPICS", 20: "DELETE_TOPICS", 37: "CREATE_PARTITIONS"}
VERSIONS = {19: 7, 20: 6, 37: 3}
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def line(time, key, request, response, **fields):
    """Return a line of a time in its layout, an API key, and the own fields of request and response.

    `fields` differ from the defaults: `client_id`, `correlation_id`, `api_version` of the header, and those of the line
    itself, by their names in JSON.
    """
    header = {
        "requestApiKey": key,
        "requestApiVersion": fields.pop("api_version", VERSIONS.get(key, 0)),
        "correlationId": fields.pop("correlation_id", 5),
        "clientId": fields.pop("client_id", "app"),
        "requestApiKeyName": NAMES.get(key, "FETCH"),
    }
    message = {
        "isForwarded": False,
        "requestHeader": header,
        "request": request,
        "response": {"throttleTimeMs": 0} | response,
        "connection": "127.0.0.1:9092-127.0.0.1:50012-0-1",
        "totalTimeMs": 50.183,
        "principal": "User:alice",
        "listener": "PLAINTEXT",
    }
    text = json.dumps(message | fields, separators=(",", ":"), ensure_ascii=False)
    return f"[{time}] DEBUG Completed request:{text} (kafka.request.logger)\n".encode()


def created(time, *topics, errors=(), validate_only=False, throttle_ms=0, **fields):
    """Return a line of CREATE_TOPICS for pairs of a name and its partitions, each with an error code (0 by default)."""
    codes = [*errors, *[0] * (len(topics) - len(errors))]
    requested = [{"name": name, "numPartitions": count, "replicationFactor": 1} for name, count in topics]
    answered = [
        {"name": name, "topicId": f"id-of-{name}", "errorCode": code, "numPartitions": -1 if code else count}
        for (name, count), code in zip(topics, codes, strict=True)
    ]
    request = {"topics": requested, "timeoutMs": 30000, "validateOnly": validate_only}
    return line(time, 19, request, {"throttleTimeMs": throttle_ms, "topics": answered}, **fields)


def grown(time, name, count, error=0, **fields):
    """Return a line of CREATE_PARTITIONS for one topic."""
    request = {"topics": [{"name": name, "count": count, "assignments": None}], "validateOnly": False}
    return line(time, 37, request, {"results": [{"name": name, "errorCode": error}]}, **fields)


def deleted(time, *names, error=0, **fields):
    """Return a line of DELETE_TOPICS."""
    requested = [{"name": name, "topicId": NO_ID} for name in names]
    answered = [{"name": name, "topicId": f"id-of-{name}", "errorCode": error} for name in names]
    return line(time, 20, {"topics": requested, "timeoutMs": 30000}, {"responses": answered}, **fields)


def fetched(time):
    """Return a line of another API."""
    return line(time, 1, {"maxWaitMs": 500, "topics": []}, {"errorCode": 0, "responses": []})
