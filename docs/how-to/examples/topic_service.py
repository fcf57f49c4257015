"""A service that creates topics for its users by HTTP, and obeys the quotas.

    python topic_service.py kafka-1:9092 8080
    curl -i -X PUT 'http://127.0.0.1:8080/orders?partitions=6'

A topic that the quota rejects is answered with 429 and the header Retry-After, as HTTP clients know it.
"""

import math
import sys
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from quota.kafka.admin import QuotaAdminClient, ThrottlingQuotaExceededError

_STATUS = {
    "TOPIC_ALREADY_EXISTS": HTTPStatus.CONFLICT,
    "TOPIC_AUTHORIZATION_FAILED": HTTPStatus.FORBIDDEN,
    "_TIMED_OUT": HTTPStatus.GATEWAY_TIMEOUT,
}
"""The status of an error of the cluster or of librdkafka; any other is the request's own, such as an invalid name."""


class TopicService(ThreadingHTTPServer):
    """The HTTP server; its threads share one client, which knows until when the service is throttled."""

    daemon_threads = True

    def __init__(self, bootstrap_servers: str, port: int) -> None:
        """Connect to the cluster, and listen on a port of this machine."""
        super().__init__(("127.0.0.1", port), _Handler)
        self.admin = QuotaAdminClient({"bootstrap.servers": bootstrap_servers, "client.id": "topic-service"})

    def server_close(self) -> None:
        """Close the server, and the client after its pending calls."""
        super().server_close()
        self.admin.close()


class _Handler(BaseHTTPRequestHandler):
    server: TopicService

    def do_PUT(self) -> None:
        """Create the topic of the path."""
        url = urlsplit(self.path)
        try:
            partitions = int(parse_qs(url.query).get("partitions", ["1"])[0])
        except ValueError as error:
            self._answer(HTTPStatus.BAD_REQUEST, f"partitions: {error}")
            return
        topic = NewTopic(url.path.removeprefix("/"), partitions)
        # The service's own client decides when to try again, so this client does not.
        future = self.server.admin.create_topics([topic], retry_on_quota_violation=False)[topic.topic]
        try:
            future.result()
        except ThrottlingQuotaExceededError as error:
            seconds = math.ceil(error.throttle_time_ms / 1000)
            self._answer(HTTPStatus.TOO_MANY_REQUESTS, error.args[0].str(), {"Retry-After": str(seconds)})
        except KafkaException as error:
            status = _STATUS.get(error.args[0].name(), HTTPStatus.BAD_REQUEST)
            self._answer(status, error.args[0].str())
        else:
            self._answer(HTTPStatus.CREATED, f"{topic.topic} is there")

    def _answer(self, status: HTTPStatus, text: str, headers: dict[str, str] | None = None) -> None:
        body = f"{text}\n".encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    servers, port = sys.argv[1:]
    with TopicService(servers, int(port)) as service, suppress(KeyboardInterrupt):
        service.serve_forever()
