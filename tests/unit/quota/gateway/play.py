"""A client's channel without sockets: what the client and the broker send and get, and the questions in between."""

import json
import struct

from quota.gateway.addresses import Addresses
from quota.gateway.channel import Channel
from quota.gateway.client_quotas import RatesReply
from quota.gateway.context import GatewayContext
from quota.gateway.requests import OfferedApis
from quota.records.decision import Outcome, read_decision
from quota.records.decision_request import DecisionReply
from quota.wire.headers import (
    RequestHeader,
    acks_of_produce,
    read_request_header,
    read_response_header,
    write_request,
    write_response,
)
from tests.support.factories import DECISION_RECORD
from tests.unit.quota.gateway.cluster import Cluster

GATEWAY = ("gw", 19092)
"""The address that the brokers of the tests tell clients."""


class FakePorts:
    """The ports of a channel, operated by hand."""

    def __init__(self):
        self.client, self.broker = bytearray(), bytearray()
        self.requested, self.rates_calls, self.pauses = [], [], []
        self.time = 1000

    def to_client(self, data):
        self.client += data

    def to_broker(self, data):
        self.broker += data

    def request_decision(self, request):
        self.requested.append(request)

    def call_rates(self, call):
        self.rates_calls.append(call)

    def pause(self, ms):
        self.pauses.append(ms)

    def now(self):
        return self.time


def make_context(protocol, *, addresses=None, permissive=True, context=None, **options):
    """Return a context; further options are its own."""
    if context is not None:
        return context
    addresses = addresses or Addresses({GATEWAY: GATEWAY})
    offered = OfferedApis(protocol, permissive=permissive)
    return GatewayContext(protocol, offered, addresses, **options)


class Play:
    """One client, its channel and its broker. What the broker gets is answered when `serve` is called."""

    def __init__(self, protocol, cluster=None, *, client_id="app", **options):
        self.protocol = protocol
        self.cluster = cluster or Cluster()
        self.context = make_context(protocol, **options)
        self.ports = FakePorts()
        self.channel = Channel(self.context, self.ports)
        self.client_id = client_id
        self.seen = []
        """What the broker got: (API key, version, message) of each request."""
        self._sent = []
        self._number = 0

    # The client's side

    def frame(self, key, version, message, client_id=...):
        """Return the frame of a request, whose answer is then expected after those before it."""
        self._number += 1
        header = RequestHeader(key, version, self._number, self.client_id if client_id is ... else client_id)
        if not (key == 0 and message["acks"] == 0):
            self._sent.append(header)
        return write_request(header, self.protocol.request(key, version).write(message), self.protocol)

    def send(self, key, version, message, **options):
        """Send a request."""
        self.channel.from_client(self.frame(key, version, message, **options))

    def send_bytes(self, data):
        """Send any bytes."""
        self.channel.from_client(data)

    def exchange(self, key, version, message, **options):
        """Send a request, and have the broker answer all it gets, until a decision is needed."""
        self.send(key, version, message, **options)
        self.serve()

    def answers(self):
        """Return the messages that the client has got since the last call, in order."""
        return [self._answer(frame) for frame in take_frames(self.ports.client)]

    def call(self, key, version, message, **options):
        """Send a request, have the broker answer all it gets, and return the one answer."""
        self.exchange(key, version, message, **options)
        (answer,) = self.answers()
        return answer

    def _answer(self, frame):
        request = self._sent.pop(0)
        begin = read_response_header(frame, request, self.protocol)
        assert struct.unpack_from(">i", frame) == (request.correlation_id,)
        version = request.api_version
        if request.api_key == 18 and struct.unpack_from(">h", frame, 4) == (35,):
            version = 0
        return self.protocol.response(request.api_key, version).read(frame, begin)

    # The broker's side

    def serve(self, most=1000):
        """Have the broker answer up to so many requests, and those that follow from its answers."""
        for _ in range(most):
            answer = self.next_answer()
            if answer is None:
                return
            self.channel.from_broker(answer)

    def next_answer(self):
        """Have the broker take the next request that has an answer, and return the frame; None if there is none."""
        while (frame := take_frame(self.ports.broker)) is not None:
            header = read_request_header(frame, self.protocol)
            message = self.protocol.request(header.api_key, header.api_version).read(frame, header.body)
            self.seen.append((header.api_key, header.api_version, message))
            if header.api_key == 0 and acks_of_produce(frame, header) == 0:
                continue
            answer = self.cluster.answer(header.api_key, header.api_version, message)
            body = self.protocol.response(header.api_key, header.api_version).write(answer)
            return write_response(header, body, self.protocol)
        return None

    def keys_seen(self):
        """Return the API keys of what the broker got, in order."""
        return [key for key, _, _ in self.seen]

    def changes_seen(self):
        """Return what could have changed topics, of what the broker got: (API key, version, message)."""
        seen = [call for call in self.seen if call[0] in {19, 20, 37} and not call[2].get("validateOnly")]
        return [call for call in seen if "?" not in "".join(call[2].get("topicNames", ()))]  # no name of a topic

    # Decisions and time

    def decide(self, rejected=(), throttle_ms=0, waited_ms=0, decision_age_ms=0, **fields):
        """Answer the one question: all topics are admitted but those named. Return the question's request.

        Further fields are those of the decision.
        """
        (ask,) = self.ports.requested
        self.ports.requested.clear()
        decision = decision_on(ask.request, rejected, throttle_ms, **fields)
        self.ports.time += waited_ms
        self.context.buckets.record(decision, self.ports.time - decision_age_ms)  # as the server does
        self.channel.go_on(DecisionReply(decision, waited_ms, decision_age_ms=decision_age_ms))
        self.serve()
        return ask.request

    def mutate(self, key, version, message, **decision):
        """Send a mutation, have the broker validate it, and decide it (`decide`). Return the question's request."""
        self.exchange(key, version, message)
        return self.decide(**decision)

    def no_decision(self, waited_ms=8000, **reply):
        """Report that there is no decision, because the job is silent or as the reply says."""
        self.ports.requested.clear()
        self.ports.time += waited_ms
        self.channel.go_on(DecisionReply(None, waited_ms, **{"job_silent_ms": 10_000, **reply}))
        self.serve()

    def give_rates(self, rates=(), error=""):
        """Reply to the one access to the quota log."""
        self.ports.rates_calls.clear()
        self.channel.go_on(RatesReply(dict(rates), error))
        self.serve()

    def end_pause(self):
        """Let the current pause pass."""
        self.ports.time += self.ports.pauses.pop(0)
        self.channel.go_on()
        self.serve()

    def end_pauses(self):
        """Let all pauses pass, one after the other, and return them."""
        waited = []
        while self.ports.pauses:
            waited += self.ports.pauses
            self.end_pause()
        return waited

    def pass_time(self, ms):
        """Let time pass, and resume the channel if its request is due."""
        self.ports.time += ms
        for channel in list(self.context.mutes.due(self.ports.time)):
            channel.resume()
        self.serve()


ADMITTED = (0, "NONE", None)
REJECTED = (89, "THROTTLING_QUOTA_EXCEEDED", "The throttling quota has been exceeded.")
EXCEEDING = (44, "POLICY_VIOLATION", "The topic costs too much.")


def decision_on(request, rejected=(), throttle_ms=0, exceeding=(), **given):
    """Return a decision on a request that rejects the topics named, some because they exceed the limit of a topic."""
    topics = []
    for topic in request.topics:
        answer = EXCEEDING if topic.name in exceeding else REJECTED if topic.name in rejected else ADMITTED
        error = dict(zip(("error_code", "error", "error_message"), answer, strict=True))
        topics.append({"name": topic.name, "partitions": topic.partitions, **error})
    fields = {
        "outcome": Outcome.of([not topic["error_code"] for topic in topics]).value,
        "topics": topics,
        "shadow": None,
        "throttle_time_ms": throttle_ms,
        "user": request.user,
        "client_id": request.client_id,
        "operation": request.operation.value,
        "validate_only": request.validate_only,
        "mode": request.mode.value,
        "apply": request.apply,
        "expires_at": request.expires_at,
    }
    return read_decision(json.dumps(DECISION_RECORD | fields | given).encode())


def take_frame(buffer):
    """Remove the first frame of a buffer, and return it without its length; None if it is not all there."""
    if len(buffer) < 4:
        return None
    (length,) = struct.unpack_from(">i", buffer)
    if len(buffer) < 4 + length:
        return None
    frame = bytes(buffer[4 : 4 + length])
    del buffer[: 4 + length]
    return frame


def take_frames(buffer):
    """Remove all whole frames of a buffer, and return them."""
    frames = []
    while (frame := take_frame(buffer)) is not None:
        frames.append(frame)
    return frames
