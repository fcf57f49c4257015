"""Channels that are muted, step by step, and KIP-219's own test plan with a simulated clock."""

import heapq
import itertools
import tracemalloc
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from quota.admission.decide import decide
from quota.algorithms.token_bucket import TokenBucket
from quota.client.channel_muter import ChannelFull, ChannelMuter
from quota.records.quota import Window
from tests.support.factories import PERMISSIVE, STRICT, resolved


def due(muter, now):
    return list(muter.due(now))


def muted(throttle_time_ms, *held, at=0, **options):
    """A muter whose channel "a" was answered at a time, and was offered requests since."""
    muter = ChannelMuter(**options)
    muter.offer("a", "first", at)
    muter.answered("a", throttle_time_ms, at)
    for request in held:
        assert not muter.offer("a", request, at)
    return muter


def test_a_new_channel_forwards_its_request():
    assert ChannelMuter().offer("a", "first", 0)


def test_a_request_of_a_muted_channel_is_held_until_the_time_has_passed():
    muter = muted(1000, "second", at=500)
    assert muter.muted_until("a", 1499) == 1500
    assert muter.next_at() == 1500
    assert due(muter, 1499) == []
    assert due(muter, 1500) == [("a", "second")]
    assert muter.muted_until("a", 1500) is None


def test_the_mute_starts_with_the_response_and_not_with_the_request():
    muter = ChannelMuter()
    muter.offer("a", "first", 0)
    muter.answered("a", 1000, 70)
    assert muter.muted_until("a", 70) == 1070


def test_a_channel_is_busy_until_its_response():
    muter = ChannelMuter()
    assert muter.offer("a", "first", 0)
    assert not muter.offer("a", "second", 0)
    assert due(muter, 10_000) == []
    assert muter.next_at() is None
    muter.answered("a", 0, 10_000)
    assert muter.next_at() == 10_000
    assert due(muter, 10_000) == [("a", "second")]


def test_one_request_at_a_time_leaves_a_channel_when_its_mute_is_over():
    """The second may be throttled again: the third has to wait for that."""
    muter = muted(1000, "second", "third")
    assert due(muter, 5000) == [("a", "second")]
    assert due(muter, 6000) == []
    muter.answered("a", 2000, 6000)
    assert due(muter, 7999) == []
    assert due(muter, 8000) == [("a", "third")]


def test_a_request_after_a_mute_waits_for_the_held_ones():
    muter = muted(1000, "second")
    assert not muter.offer("a", "third", 1000)
    assert due(muter, 1000) == [("a", "second")]
    muter.answered("a", 0, 1001)
    assert due(muter, 1001) == [("a", "third")]


def test_a_request_after_the_mute_is_forwarded_even_if_due_requests_were_not_polled():
    assert muted(1000).offer("a", "second", 1000)


def test_a_response_mutes_a_channel_again_after_its_mute():
    """The end of the first mute, seen late, neither lets the third request out nor forgets the second."""
    muter = muted(1000)
    muter.offer("a", "second", 1000)
    assert due(muter, 1000) == []
    muter.offer("a", "third", 1000)
    assert due(muter, 1000) == []
    muter.answered("a", 500, 1000)
    assert due(muter, 1499) == []
    assert due(muter, 1500) == [("a", "third")]


def test_channels_do_not_wait_for_each_other():
    muter = ChannelMuter()
    for channel, throttle_time_ms in (("a", 3000), ("b", 1000), ("c", 2000)):
        muter.offer(channel, 1, 0)
        muter.answered(channel, throttle_time_ms, 0)
        muter.offer(channel, 2, 0)
    assert due(muter, 2000) == [("b", 2), ("c", 2)]
    assert muter.offer("d", 1, 2000)
    assert muter.next_at() == 3000


def test_the_channel_whose_mute_ends_first_is_due_first_however_often_they_were_muted():
    """Seven rounds over a hundred channels, the last of which ends at 1000 + the channel's number."""
    muter = ChannelMuter()
    for turn in range(700):
        channel = 37 * turn % 100
        muter.mute(channel, 1000 + channel - (6 - turn // 100), 0)
    for channel in range(100):
        muter.offer(channel, "first", 0)
    assert muter.next_at() == 1000
    assert due(muter, 1098) == [(channel, "first") for channel in range(99)]
    assert due(muter, 1099) == [(99, "first")]


@pytest.mark.parametrize("times", [(1000, 4000), (4000, 1000)])
def test_a_channel_is_muted_until_its_latest_throttle_time_has_passed(times):
    muter = muted(2000, "second")
    for throttle_time_ms in times:
        muter.mute("a", throttle_time_ms, 0)
    assert muter.next_at() == 4000
    assert due(muter, 3999) == []
    assert due(muter, 4000) == [("a", "second")]


def test_a_shorter_throttle_time_does_not_end_a_mute():
    muter = ChannelMuter()
    muter.offer("a", "first", 0)
    muter.mute("a", 4000, 0)
    muter.answered("a", 1000, 100)
    assert muter.muted_until("a", 100) == 4000


@pytest.mark.parametrize("throttle_time_ms", [0, 1000])
def test_a_channel_muted_while_busy_stays_busy_until_its_response(throttle_time_ms):
    muter = ChannelMuter()
    muter.offer("a", "first", 0)
    muter.mute("a", throttle_time_ms, 0)
    assert not muter.offer("a", "second", 0)
    assert due(muter, 1000) == []
    muter.answered("a", 0, 2000)
    assert due(muter, 2000) == [("a", "second")]


def test_a_channel_may_be_muted_before_it_sends_anything():
    muter = ChannelMuter()
    muter.mute("a", 1000, 0)
    assert not muter.offer("a", "first", 999)
    assert due(muter, 1000) == [("a", "first")]


def test_a_full_channel_is_not_readable_until_one_of_its_requests_is_due():
    muter = muted(1000, "second", max_held=2)
    assert not muter.is_full("a")
    muter.offer("a", "third", 0)
    assert muter.is_full("a")
    with pytest.raises(ChannelFull, match="channel 'a' holds 2 requests: read from it again when"):
        muter.offer("a", "fourth", 0)
    assert due(muter, 1000) == [("a", "second")]
    assert not muter.is_full("a")
    assert not muter.offer("a", "fourth", 1000)


def test_a_muter_without_capacity_is_rejected():
    with pytest.raises(ValueError, match="at least 1, not 0"):
        ChannelMuter(max_held=0)


def test_a_closed_channel_returns_its_held_requests_in_order_and_is_not_muted():
    muter = muted(1000, "second", "third")
    assert muter.close("a") == ["second", "third"]
    assert muter.close("a") == []
    assert muter.muted_until("a", 0) is None
    assert muter.next_at() is None
    assert due(muter, 1000) == []


def test_a_response_to_a_closed_channel_is_ignored():
    muter = ChannelMuter()
    muter.offer("a", "first", 0)
    muter.close("a")
    muter.answered("a", 1000, 10)
    assert muter.muted_until("a", 10) is None
    assert len(muter) == 0


def test_a_response_to_a_channel_that_is_not_busy_is_ignored():
    muter = muted(1000, "second")
    muter.answered("a", 9000, 0)
    assert due(muter, 1000) == [("a", "second")]


def test_requests_not_taken_from_the_iterator_stay_held():
    muter = muted(1000, "second")
    muter.mute("b", 1000, 0)
    muter.offer("b", "first", 0)
    assert next(muter.due(1000)) == ("a", "second")
    assert due(muter, 1000) == [("b", "first")]


def test_requests_answered_at_once_are_due_together():
    muter = muted(1000, "second", "third", "fourth")
    requests = []
    for channel, request in muter.due(1000):
        requests.append(request)
        muter.answered(channel, 500 if request == "third" else 0, 1000)
    assert requests == ["second", "third"]
    assert muter.next_at() == 1500


def test_channels_are_never_compared_with_each_other():
    muter = ChannelMuter()
    for channel in (1, "a", None, ("b", 2)):
        muter.mute(channel, 1000, 0)
        muter.offer(channel, "first", 0)
    assert len(due(muter, 1000)) == 4


def test_channels_without_any_state_are_forgotten():
    muter = muted(1000)
    muter.offer("b", "first", 0)
    muter.mute("c", 0, 0)
    assert len(muter) == 2
    muter.answered("b", 0, 5)
    assert len(muter) == 1
    assert due(muter, 1000) == []
    assert len(muter) == 0
    assert muter.next_at() is None


def mute_over_and_over(muter, turn):
    muter.mute("a", 1_000_000, turn)


def come_and_go(muter, turn):
    muter.offer(turn, "first", turn)
    muter.answered(turn, 1_000_000, turn)
    muter.offer(turn, "second", turn)
    muter.close(turn)


def send_without_being_throttled(muter, turn):
    muter.offer(turn, "first", turn)
    muter.answered(turn, 0, turn)


def send_as_soon_as_the_mute_is_over(muter, turn):
    muter.offer("a", "next", 10 * turn)
    muter.answered("a", 10, 10 * turn)


@pytest.mark.parametrize(
    "work", [mute_over_and_over, come_and_go, send_without_being_throttled, send_as_soon_as_the_mute_is_over]
)
def test_twenty_thousand_mutes_need_no_more_memory_than_a_few(work):
    """One remaining timer per mute would be more than 1 MB."""
    muter = ChannelMuter()
    tracemalloc.start()
    for turn in range(20_000):
        work(muter, turn)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000
    assert len(muter) <= 1


channels = st.sampled_from("abc")
milliseconds = st.integers(0, 50)


class AnyOrderOfCalls(RuleBasedStateMachine):
    """Nothing offered is lost, duplicated or reordered, and nothing leaves a channel that is muted or busy."""

    def __init__(self):
        super().__init__()
        self.muter, self.now, self.numbers = ChannelMuter(max_held=4), 0, itertools.count()
        self.offered, self.left, self.throttled_until, self.busy = (
            defaultdict(list),
            defaultdict(list),
            defaultdict(int),
            set(),
        )

    def is_ready(self, channel):
        return channel not in self.busy and self.throttled_until[channel] <= self.now

    def held(self, channel):
        return self.offered[channel][len(self.left[channel]) :]

    def leave(self, channel, request):
        assert self.is_ready(channel)
        self.left[channel].append(request)
        self.busy.add(channel)

    @rule(channel=channels)
    def offer(self, channel):
        request, held = next(self.numbers), self.held(channel)
        assert self.muter.is_full(channel) == (len(held) == 4)
        if len(held) == 4:
            with pytest.raises(ChannelFull):
                self.muter.offer(channel, request, self.now)
            return
        passed = self.muter.offer(channel, request, self.now)
        self.offered[channel].append(request)
        assert passed == (self.is_ready(channel) and not held)
        if passed:
            self.leave(channel, request)

    @rule(channel=channels, throttle_time_ms=milliseconds)
    def answer(self, channel, throttle_time_ms):
        self.muter.answered(channel, throttle_time_ms, self.now)
        if channel in self.busy:
            self.busy.remove(channel)
            self.throttled_until[channel] = max(self.throttled_until[channel], self.now + throttle_time_ms)

    @rule(channel=channels, throttle_time_ms=milliseconds)
    def mute(self, channel, throttle_time_ms):
        self.muter.mute(channel, throttle_time_ms, self.now)
        self.throttled_until[channel] = max(self.throttled_until[channel], self.now + throttle_time_ms)

    @rule(channel=channels)
    def close(self, channel):
        assert self.muter.close(channel) == self.held(channel)
        self.offered[channel], self.left[channel], self.throttled_until[channel] = [], [], 0
        self.busy.discard(channel)

    @rule(ms=milliseconds)
    def wait(self, ms):
        self.now += ms

    @rule()
    def look(self):
        for channel, request in self.muter.due(self.now):
            self.leave(channel, request)
        assert [each for each in "abc" if self.is_ready(each) and self.held(each)] == []
        muted = {each for each in "abc" if self.throttled_until[each] > self.now}
        assert len(self.muter) == len(muted | self.busy)

    @invariant()
    def what_left_is_what_was_offered_first(self):
        for channel, requests in self.left.items():
            assert requests == self.offered[channel][: len(requests)]

    @invariant()
    def a_channel_is_muted_until_its_latest_throttle_time_has_passed(self):
        for channel in "abc":
            throttled_until = self.throttled_until[channel]
            assert self.muter.muted_until(channel, self.now) == (
                throttled_until if throttled_until > self.now else None
            )

    @invariant()
    def the_loop_comes_back_in_time_for_what_is_held(self):
        ends = [self.throttled_until[each] for each in "abc" if each not in self.busy and self.held(each)]
        assert not ends or self.muter.next_at() <= max(self.now, min(ends))

    def teardown(self):
        """Ten rounds let out everything, four requests of a channel at most, and then nothing is remembered."""
        for _ in range(10):
            for channel in sorted(self.busy):
                self.answer(channel, 0)
            self.wait(50)
            self.look()
        assert self.left == self.offered
        assert (len(self.muter), self.muter.next_at()) == (0, None)


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
        self.muter, self.rate, self.window, self.takes_ms = ChannelMuter(), rate, window or Window(), takes_ms
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
            for channel, client in self.muter.due(self.now):
                self.ask(channel, client)
            self.now = min(
                time for time in (self.muter.next_at(), *(each[0] for each in self.events)) if time is not None
            )

    def send(self, client):
        client.sent_at, client.is_waiting = self.now, True
        self.at(self.now + 30_000, self.give_up, client, client.sent_at)
        channel = (client, client.connection)
        if self.muter.offer(channel, client, self.now):
            self.ask(channel, client)

    def ask(self, channel, client):
        assert self.now >= self.throttled_until[channel], (
            "a request came to the decider before the throttle time had passed"
        )
        client.decided_at.append(self.now)
        request = resolved(client.partitions, at=self.now, rate=self.rate, api_version=client.api_version)
        self.bucket, (decision,) = decide(self.bucket, [request], TokenBucket(self.window))
        self.at(self.now + self.takes_ms, self.answer, channel, client, decision.throttle_time_ms)

    def answer(self, channel, client, throttle_time_ms):
        self.muter.answered(channel, throttle_time_ms, self.now)
        self.throttled_until[channel] = self.now + throttle_time_ms
        if channel == (client, client.connection):
            client.is_waiting = False
            client.throttle_times.append(throttle_time_ms)
            client.response_times.append(self.now - client.sent_at)
            self.at(self.now + throttle_time_ms if client.patient else self.now, self.send, client)

    def give_up(self, client, sent_at):
        if client.is_waiting and client.sent_at == sent_at:
            client.timeouts += 1
            self.muter.close((client, client.connection))
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


def test_a_strict_client_that_retries_at_once_is_refused_once_only():
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
