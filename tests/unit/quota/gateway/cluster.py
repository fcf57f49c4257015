"""A broker in a few lines: it answers as Kafka 4.2.1 was seen to answer."""

from tests.support.wire.requests import NO_ID

DELETE_ALLOWED = 1 << 6
EVERYTHING = 3576
"""Authorized operations, as a broker without an authorizer tells them."""

NOT_THERE = "This server does not host this topic-partition."


def topic_id(number):
    """Return the id of the topic created as the nth, from 1 on."""
    return number.to_bytes(16)


class Cluster:
    """Topics by name, each with its id and number of partitions."""

    default_partitions = 4

    def __init__(self, host="gw", port=19092, **topics):
        self.topics = {}
        self.address = (host, port)
        self.forbidden = set()
        """Topics that the client may see, but not change."""
        self.hidden = set()
        """Topics that the client may not see, whether they exist or not."""
        self.may_delete_all = False
        """Whether the client has a permission on the cluster that covers the deletion of all topics."""
        self.deletes = True
        """Whether topics can be deleted at all, the broker's `delete.topic.enable`."""
        self.unalterable = set()
        """Topics that the client may delete, but not grow."""
        self.controller_error = 0
        """The error of every CreatePartitions, if any."""
        self.unseen = set()
        """Topics that Metadata does not show yet."""
        self.lagging = {}
        """What Metadata still shows of topics, instead of what is so: id and partitions by name."""
        self.accepts = {}
        """SASL: what the broker answers to each message of the client: an answer's fields."""
        self.throttle_ms = 0
        self.replicas = 1
        self._created = 0
        for name, partitions in topics.items():
            self.create(name.replace("_", "-"), partitions)

    def create(self, name, partitions):
        """Create a topic."""
        self._created += 1
        self.topics[name] = (topic_id(self._created), partitions)

    def answer(self, key, version, message):
        """Answer a request."""
        answer = self._ANSWERS[key](self, version, message)
        return {"throttleTimeMs": self.throttle_ms, **answer} if version or key != 18 else answer

    def _produce(self, _version, _message):
        return {"responses": []}

    def _fetch(self, _version, _message):
        return {"responses": [], "errorCode": 0, "sessionId": 0}

    def _metadata(self, version, message):
        requested = message["topics"]
        if requested is None or (not requested and not version):
            requested = [{"name": name, "topicId": NO_ID} for name in self.topics]
        answer = {"brokers": [self._broker()], "clusterId": "c", "controllerId": 1}
        if message.get("allowAutoTopicCreation", True):  # `auto.create.topics.enable`
            for topic in requested:
                if topic["name"] not in self.topics and topic["name"] is not None:
                    self.create(topic["name"], self.default_partitions)
        if by_id := [topic for topic in requested if topic.get("topicId", NO_ID) != NO_ID]:
            requested = by_id  # KafkaApis: the names are ignored then
        return answer | {"topics": [self._topic(version, topic) for topic in requested]}

    def _broker(self):
        host, port = self.address
        return {"nodeId": 1, "host": host, "port": port, "rack": None}

    def _topic(self, version, requested):
        by_id = {identity: name for name, (identity, _) in self.topics.items()}
        name = requested["name"]
        if name is None:
            name = by_id.get(requested["topicId"])
            if name in self.hidden:
                return {"errorCode": 29, "name": None, "topicId": requested["topicId"], "partitions": []}
            if name is None or name in self.unseen:
                return {"errorCode": 100, "name": None, "topicId": requested["topicId"], "partitions": []}
        if name in self.hidden:
            return {"errorCode": 29, "name": name, "partitions": [], **self._operations(version, name)}
        if name not in self.topics or name in self.unseen:
            return {"errorCode": 3, "name": name, "partitions": [], **self._operations(version, name)}
        identity, count = self.lagging.get(name, self.topics[name])
        nodes = [*range(1, self.replicas + 1)]
        partitions = [
            {"errorCode": 0, "partitionIndex": number, "leaderId": 1, "replicaNodes": nodes, "isrNodes": nodes}
            for number in range(count)
        ]
        answer = {"errorCode": 0, "name": name, "partitions": partitions, **self._operations(version, name)}
        return {**answer, "topicId": identity} if version >= 10 else answer

    def _operations(self, version, name):
        allowed = EVERYTHING & ~DELETE_ALLOWED if name in self.forbidden else EVERYTHING
        return {"topicAuthorizedOperations": allowed} if version >= 8 else {}

    def _create(self, version, message):
        names = [topic["name"] for topic in message["topics"]]
        results = []
        for topic in message["topics"]:
            name = topic["name"]
            if names.count(name) > 1:
                if name not in [done["name"] for done in results]:
                    results.append(_failed(name, 42, "Duplicate topic name."))
            elif name in self.forbidden:
                results.append(_failed(name, 29, "Authorization failed."))
            elif name in self.topics:
                results.append(_failed(name, 36, f"Topic '{name}' already exists."))
            else:
                results.append(self._created_answer(version, topic, validate_only=message["validateOnly"]))
        return {"topics": results}

    def _created_answer(self, version, requested, *, validate_only):
        name, count = requested["name"], requested["numPartitions"]
        if requested["assignments"]:
            count = len(requested["assignments"])
        elif count < 0:
            count = self.default_partitions
        if not validate_only:
            self.create(name, count)
        answer = {"name": name, "errorCode": 0, "errorMessage": None}
        if version >= 5:
            answer |= {"numPartitions": count, "replicationFactor": 1, "configs": []}
            if name.startswith("hidden"):  # the client may not describe its configs
                answer |= {"topicConfigErrorCode": 29, "numPartitions": -1, "replicationFactor": -1}
        if version >= 7 and not validate_only:
            answer |= {"topicId": self.topics[name][0]}
        return answer

    def _grow(self, _version, message):
        results = []
        for topic in message["topics"]:
            name, count = topic["name"], topic["count"]
            if self.controller_error:
                results.append(_failed(name, self.controller_error, None))
            elif name in self.unalterable | self.hidden:
                results.append(_failed(name, 29, "Authorization failed."))
            elif name not in self.topics:
                results.append(_failed(name, 3, None))
            elif count <= self.topics[name][1]:
                results.append(_failed(name, 37, "would not be an increase"))
            elif topic["assignments"] is not None and len(topic["assignments"]) != count - self.topics[name][1]:
                results.append(_failed(name, 39, "another number of assignments"))
            else:
                if not message["validateOnly"]:
                    self.topics[name] = (self.topics[name][0], count)
                results.append({"name": name, "errorCode": 0, "errorMessage": None})
        return {"results": results}

    def _delete(self, version, message):
        """Delete as KRaft's controller does: a topic named twice is invalid, but a name given twice does not count."""
        if version < 6:
            named = [(name, NO_ID) for name in message["topicNames"]]
        else:
            named = [(topic["name"], topic["topicId"]) for topic in message["topics"]]
        by_id = {identity: name for name, (identity, _) in self.topics.items()}
        results, deleted = [], []
        for name, identity in dict.fromkeys(named):
            place = by_id.get(identity) if name is None else name
            known, _ = self.topics.get(place, (None, 0))
            code, why = self._deletion_error(named, name, identity, place)
            if code == 0:
                deleted.append(place)
            ids = {"topicId": known or identity} if version >= 6 else {}
            results.append({"name": place, "errorCode": code, "errorMessage": why, **ids})
        for place in deleted:
            del self.topics[place]
        return {"responses": [_for(version, result) for result in results]}

    def _deletion_error(self, named, name, identity, place):  # noqa: PLR0911
        if not self.deletes:
            return 73, None
        if name is not None and identity != NO_ID:
            return 42, "You may not specify both topic name and topic id."
        if name is None and identity == NO_ID:
            return 42, "Neither topic name nor id were specified."
        if named.count((name, identity)) > 1:
            return 42, "Duplicate topic name." if name else "Duplicate topic id."
        is_hidden = place in self.hidden or "?" in (place or "")
        if is_hidden and not self.may_delete_all:
            return 29, "Topic authorization failed."
        if place not in self.topics:
            return (100, "This server does not host this topic ID.") if name is None else (3, NOT_THERE)
        by_name, by_id = named.count((place, NO_ID)), named.count((None, self.topics[place][0]))
        if by_name == 1 and by_id:
            return 42, "The provided topic name maps to an ID that was already supplied."
        is_forbidden = place in self.forbidden and not self.may_delete_all
        return (29, "Topic authorization failed.") if is_forbidden else (0, None)

    def _find_coordinator(self, version, message):
        host, port = self.address
        coordinator = {"nodeId": 1, "host": host, "port": port, "errorCode": 0, "errorMessage": None}
        if version < 4:
            return coordinator
        return {"coordinators": [{"key": key, **coordinator} for key in message["coordinatorKeys"]]}

    def _describe_cluster(self, _version, _message):
        host, port = self.address
        broker = {"brokerId": 1, "host": host, "port": port, "rack": None}
        return {"clusterId": "c", "controllerId": 1, "brokers": [broker], "clusterAuthorizedOperations": 7}

    def _api_versions(self, _version, _message):
        kept = [(0, 0, 13), (3, 0, 13), (10, 1, 6), (17, 0, 1), (18, 0, 4), (19, 2, 7), (20, 1, 6), (37, 0, 3)]
        more = [(88, 0, 0), (999, 0, 3), (1, 4, 17), (78, 1, 2), (79, 1, 2)]
        listed = [{"apiKey": key, "minVersion": first, "maxVersion": last} for key, first, last in kept + more]
        return {"errorCode": 0, "apiKeys": listed}

    def _handshake(self, _version, message):
        known = ["GSSAPI", "PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"]
        return {"errorCode": 0 if message["mechanism"] in known else 33, "mechanisms": known}

    def _authenticate(self, version, message):
        answer = {"errorCode": 0, "errorMessage": None, "authBytes": b"", **self.accepts[message["authBytes"]]}
        return answer if version >= 1 else {**answer, "sessionLifetimeMs": 0}

    def _describe_client_quotas(self, _version, _message):
        return {"errorCode": 0, "errorMessage": "", "entries": []}

    def _alter_client_quotas(self, _version, message):
        accepted = {"errorCode": 0, "errorMessage": None}
        return {"entries": [{**accepted, "entity": entry["entity"]} for entry in message["entries"]]}

    _ANSWERS = {  # noqa: RUF012
        0: _produce,
        1: _fetch,
        3: _metadata,
        10: _find_coordinator,
        17: _handshake,
        18: _api_versions,
        19: _create,
        20: _delete,
        36: _authenticate,
        37: _grow,
        48: _describe_client_quotas,
        49: _alter_client_quotas,
        60: _describe_cluster,
    }


def _failed(name, code, message):
    return {"name": name, "errorCode": code, "errorMessage": message}


def _for(version, result):
    return result if version >= 5 else {name: result[name] for name in ("name", "errorCode")}
