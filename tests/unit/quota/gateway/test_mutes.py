"""Channels that are muted, step by step, and KIP-219's own test plan with a simulated clock."""

import heapq
import itertools
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from quota.admission.decide import decide
from quota.algorithms.token_bucket import TokenBucket
from quota.gateway.mutes import Mutes
from quota.records.quota_log import Window
from tests.support.factories import PERMISSIVE, STRICT, resolved
from tests.support.measuring import traced_memory


def hold(mutes, channel, throttle_time_ms):
    """Mute a channel at 0, and have it send the next request at once."""
    mutes.offer(channel, 0)
    mutes.answered(channel, throttle_time_ms, 0)
    mutes.offer(channel, 0)


@pytest.mark.parametrize(("now", "begins"), [(999, False), (1000, True)])
def test_a_mute_is_over_at_its_end(now, begins):
    mutes = Mutes()
    mutes.offer("a", 0)
    mutes.answered("a", 1000, 0)
    assert mutes.offer("a", now) == begins


def test_the_first_channel_whose_time_is_over_is_due_first_and_those_that_are_not_taken_stay_due():
    mutes = Mutes()
    hold(mutes, "a", 2000)
    hold(mutes, "b", 1000)
    assert next(mutes.due(2000)) == "b"
    assert list(mutes.due(2000)) == ["a"]


def come_and_go(mutes, turn):
    mutes.offer(turn, turn)
    mutes.answered(turn, 1_000_000, turn)
    mutes.offer(turn, turn)
    mutes.close(turn)


def send_without_being_throttled(mutes, turn):
    mutes.offer(turn, turn)
    mutes.answered(turn, 0, turn)


def send_as_soon_as_the_mute_is_over(mutes, turn):
    mutes.offer("a", 10 * turn)
    mutes.answered("a", 10, 10 * turn)


@pytest.mark.parametrize("work", [come_and_go, send_without_being_throttled, send_as_soon_as_the_mute_is_over])
def test_twenty_thousand_mutes_need_no_more_memory_than_a_few(work):
    """One remaining alarm per mute would be more than 1 MB."""
    mutes = Mutes()
    with traced_memory() as peak:
        for turn in range(20_000):
            work(mutes, turn)
    assert peak() < 200_000
    assert len(mutes) <= 1


channels = st.sampled_from("abc")
milliseconds = st.integers(0, 4)


class AnyOrderOfCalls(RuleBasedStateMachine):
    """No channel is due while it is muted or busy, and each that holds a request becomes due."""

    def __init__(self):
        super().__init__()
        self.mutes, self.now = Mutes(), 0
        self.busy, self.holding, self.muted_until = set(), set(), defaultdict(int)

    def is_muted(self, channel):
        return channel not in self.busy and self.muted_until[channel] > self.now

    @rule(channel=channels)
    def offer(self, channel):
        begins = not (channel in self.busy or channel in self.holding or self.is_muted(channel))
        assert self.mutes.offer(channel, self.now) == begins
        (self.busy if begins else self.holding).add(channel)

    @rule(channel=channels, throttle_time_ms=milliseconds)
    def answer(self, channel, throttle_time_ms):
        self.mutes.answered(channel, throttle_time_ms, self.now)
        if channel in self.busy:
            self.busy.remove(channel)
            self.muted_until[channel] = self.now + throttle_time_ms

    @rule(channel=channels)
    def close(self, channel):
        self.mutes.close(channel)
        self.busy.discard(channel)
        self.holding.discard(channel)
        self.muted_until[channel] = 0

    @rule(ms=milliseconds)
    def wait(self, ms):
        self.now += ms

    @rule()
    def look(self):
        ready = {channel for channel in self.holding if channel not in self.busy and not self.is_muted(channel)}
        assert set(self.mutes.due(self.now)) == ready
        self.busy |= ready
        self.holding -= ready
        assert len(self.mutes) == len(
            self.busy | self.holding | {channel for channel in "abc" if self.is_muted(channel)}
        )

    @invariant()
    def a_channel_is_muted_until_its_throttle_time_has_passed(self):
        assert [self.mutes.muted(channel, self.now) for channel in "abc"] == [
            self.is_muted(channel) for channel in "abc"
        ]

    @invariant()
    def the_loop_comes_back_in_time_for_what_is_held(self):
        ends = [self.muted_until[channel] for channel in self.holding - self.busy]
        assert not ends or self.mutes.next_at() <= max(self.now, min(ends))


TestAnyOrderOfCalls = AnyOrderOfCalls.TestCase


class Client:
    """Sends one request after another: a patient client waits the throttle time first, a hasty one does not.

    A client without a response within 30 s disconnects, and sends again on a new connection.
    """

    def __init__(self, partitions, *, patient, api_version=PERMISSIVE):
        self.partitions, self.patient, self.api_version = partitions, patient, api_version
        self.connection, self.sent_at, self.is_waiting, self.timeouts = 0, 0, False, 0
        self.decided_at, self.response_times, self.throttle_times = [], [], []


class Simulation:
    """Clients, a gateway that mutes them, and a decider that responds after `takes_ms`."""

    def __init__(self, clients, *, rate, window=None, takes_ms=10):
        self.mutes, self.rate, self.window, self.takes_ms = Mutes(), rate, window or Window(), takes_ms
        self.now, self.bucket, self.throttled_until = 0, None, defaultdict(int)
        self.events, self.numbers = [], itertools.count()
        for client in clients:
            self.at(0, self.send, client)

    def at(self, time, event, *arguments):
        heapq.heappush(self.events, (time, next(self.numbers), event, arguments))

    def run(self, until):
        while self.now < until:
            while self.events and self.events[0][0] <= self.now:
                _, _, event, arguments = heapq.heappop(self.events)
                event(*arguments)
            for channel in self.mutes.due(self.now):
                self.ask(channel)
            self.now = min(
                time for time in (self.mutes.next_at(), *(entry[0] for entry in self.events)) if time is not None
            )

    def send(self, client):
        client.sent_at, client.is_waiting = self.now, True
        self.at(self.now + 30_000, self.give_up, client, client.sent_at)
        channel = (client, client.connection)
        if self.mutes.offer(channel, self.now):
            self.ask(channel)

    def ask(self, channel):
        assert self.now >= self.throttled_until[channel], (
            "a request came to the decider before the throttle time had passed"
        )
        client, _ = channel
        client.decided_at.append(self.now)
        request = resolved(client.partitions, at=self.now, rate=self.rate, api_version=client.api_version)
        self.bucket, decision = decide(self.bucket, request, TokenBucket(self.window))
        self.at(self.now + self.takes_ms, self.answer, channel, decision.throttle_time_ms)

    def answer(self, channel, throttle_time_ms):
        client, connection = channel
        self.mutes.answered(channel, throttle_time_ms, self.now)
        self.throttled_until[channel] = self.now + throttle_time_ms
        if connection == client.connection:
            client.is_waiting = False
            client.throttle_times.append(throttle_time_ms)
            client.response_times.append(self.now - client.sent_at)
            self.at(self.now + throttle_time_ms if client.patient else self.now, self.send, client)

    def give_up(self, client, sent_at):
        if client.is_waiting and client.sent_at == sent_at:
            client.timeouts += 1
            self.mutes.close((client, client.connection))
            client.connection += 1
            self.send(client)


def test_kip_219_a_client_that_is_throttled_for_longer_than_its_timeout_does_not_time_out():
    """A mutation every 10 s, a burst of 1.1 and topics of 5 partitions.

    The first leaves -3.9, so 39 s; reported at 10 ms, it is over at 39,010. By then K is 0.001, and -4.999 after the
    second, so 49,990 ms; reported at 39,020, it is over at 89,010, and so on.
    """
    client = Client(5, patient=True)
    Simulation([client], rate=0.1).run(until=189_000)
    assert client.throttle_times == [39_000, 49_990, 49_990, 49_990]
    assert client.decided_at == [0, 39_010, 89_010, 139_010]
    assert client.response_times == [10, 10, 10, 10]
    assert client.timeouts == 0


def test_kip_219_a_client_that_ignores_its_throttle_time_is_decided_no_earlier():
    """As above with topics of 2: -0.9 is 9 s, over at 9010; from K = 0.001 to -1.999 is 19,990 ms.

    Each request is sent on the response to the one before, and held until the throttle time is over.
    """
    client = Client(2, patient=False)
    Simulation([client], rate=0.1).run(until=69_000)
    assert client.throttle_times == [9000, 19_990, 19_990, 19_990]
    assert client.decided_at == [0, 9010, 29_010, 49_010]
    assert client.response_times == [10, 9010, 20_000, 20_000]
    assert client.timeouts == 0


def test_a_strict_client_that_retries_at_once_is_rejected_once_only():
    """KIP-599's example: 560 leave -60; at 20 ms K is -59.9, so 11,980 ms; reported at 40, it is over at 12,020."""
    client = Client(560, patient=False, api_version=STRICT)
    Simulation([client], rate=5.0, window=Window(num=100), takes_ms=20).run(until=12_041)
    assert client.decided_at == [0, 20, 12_020, 12_040]
    assert client.throttle_times == [0, 11_980, 0]


@given(
    st.lists(st.builds(Client, st.integers(1, 10), patient=st.booleans()), min_size=1, max_size=6),
    st.sampled_from([0.1, 0.5, 1.0]),
    st.integers(0, 500),
)
def test_kip_219_clients_that_share_a_low_quota_are_not_early_and_do_not_time_out_if_they_wait(clients, rate, takes_ms):
    """`ask` asserts that no client is early. A hasty client may time out, as in KIP-219.

    A single one already requests twice the quota: a partition every 500 ms at most. So each is throttled.
    """
    Simulation(clients, rate=rate, takes_ms=takes_ms).run(until=600_000)
    for client in clients:
        assert any(client.throttle_times)
        if client.patient:
            assert set(client.response_times) == {takes_ms}
            assert client.timeouts == 0
