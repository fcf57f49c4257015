"""The threads of a client: calls start and end on any of them, and none is left behind."""

import gc
import queue
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewPartitions, NewTopic

from quota.kafka.admin import client as client_module
from quota.kafka.admin import dispatcher as module
from quota.kafka.admin.calls import CallOptions, TopicFuture
from quota.kafka.admin.client import QuotaAdminClient
from quota.kafka.admin.client_options import ClientOptions
from quota.kafka.admin.dispatcher import Dispatcher
from quota.kafka.requests_and_answers import ReceivedAnswer
from quota.records.request import Operation, TopicMutation
from quota.records.result import TopicResult
from tests.support.waiting import until
from tests.unit.quota.gateway.play import decision_on


class Job:
    """What stands in for Kafka and the job: it admits each request, except for the topic `silent`."""

    def __init__(self):
        self.requested, self.silent, self.carried = queue.Queue(), threading.Event(), []

    def check_topic(self, _user):
        pass

    def poll(self):
        pass

    def flush(self, seconds):
        pass

    def send(self, request, on_delivery):  # noqa: ARG002 as the producer's
        self.requested.put(request)

    def read(self, seconds):
        try:
            request = self.requested.get(timeout=seconds)
        except queue.Empty:
            return
        if request.topics[0].name == "silent":
            self.silent.set()
        else:
            yield ReceivedAnswer(msgspec.structs.replace(decision_on(request), request_id=request.request_id), 1)

    def close(self):
        pass

    def carry_out(self, tasks, _seconds):
        self.carried += [task.name for task in tasks if not task.validate_only]
        return [TopicResult(task.name) for task in tasks]

    def partitions(self, names, _seconds):
        return {name: 1 for name in names if name != "unknown"}, {
            name: KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED) for name in names if name == "secret"
        }


@pytest.fixture
def job(monkeypatch):
    job = Job()
    for name in ("RequestWriter", "AnswerReader", "Target"):
        monkeypatch.setattr(module, name, lambda *_, **__: job)
    return job


def make_client(settings):
    return Dispatcher(ClientOptions(settings, {}, {}, "alice", "app"))


def threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("mutation-quota")]


@pytest.fixture
def client(job, base_settings):  # noqa: ARG001 it stands in for Kafka
    client = make_client(base_settings)
    yield client
    client.close(wait_for_calls=False)
    until(lambda: not threads(), seconds=10, poll_seconds=0.01)


def call(client, *names, seconds=None, find=None):
    mutations = [TopicMutation(name, 1) for name in names]
    return client.call(CallOptions(Operation.CREATE_TOPICS), names, find or (lambda _: mutations), seconds)


def error_of(future):
    return future.exception(10).args[0].name()


def test_calls_of_many_threads_are_carried_out(client):
    futures = []
    with ThreadPoolExecutor(20) as pool:
        for number in range(20):
            pool.submit(lambda name=f"t{number}": futures.append(call(client, name)[name]))
    assert [future.result(10) for future in futures] == [None] * 20
    assert {future.decision_id for future in futures} == {"mutation-requests-1-7"}


def test_a_name_that_is_given_twice_is_not_requested(client, job):
    futures = call(client, "a", "b", "a")
    assert error_of(futures["a"]) == "INVALID_REQUEST"
    assert (futures["b"].result(10), job.carried) == (None, ["b"])
    mutations = []
    assert error_of(call(client, "c", "c", find=mutations.append)["c"]) == "INVALID_REQUEST"
    client.close(wait_for_calls=True)
    assert mutations == []


@pytest.fixture
def admin(job, monkeypatch):  # noqa: ARG001 it stands in for Kafka
    """A client that may describe neither the topic `secret` nor the brokers' configs."""

    def forbidden(*_):
        raise KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))

    monkeypatch.setattr(client_module, "read_broker_configs", forbidden)
    admin = QuotaAdminClient({"bootstrap.servers": "127.0.0.1:1"})
    yield admin
    admin.close(wait=False)


def test_a_topic_whose_cost_is_unknown_fails_with_the_reason_and_the_others_are_changed(admin, job):
    created = admin.create_topics([NewTopic("two", 2), NewTopic("default")])
    assert created["default"].exception(10).args[0].str() == (
        "the default number of partitions cannot be read: Broker: Cluster authorization failed; allow this principal "
        "DescribeConfigs on the cluster, or give num_partitions"
    )
    assert error_of(created["default"]) == "CLUSTER_AUTHORIZATION_FAILED"
    grown = admin.create_partitions([NewPartitions("secret", 5), NewPartitions("grown", 5), NewPartitions("a", 5)])
    deleted = admin.delete_topics(["secret", "deleted", "twice", "twice"])
    for futures in (grown, deleted):
        assert error_of(futures["secret"]) == "TOPIC_AUTHORIZATION_FAILED"
    assert error_of(deleted["twice"]) == "INVALID_REQUEST"
    for future in (created["two"], grown["grown"], deleted["deleted"]):
        assert future.result(10) is None
    assert sorted(job.carried) == ["a", "deleted", "grown", "two"]


def test_the_growth_of_a_topic_that_does_not_exist_is_not_requested(admin, job):
    grown = admin.create_partitions([NewPartitions("unknown", 5)])
    assert error_of(grown["unknown"]) == "UNKNOWN_TOPIC_OR_PART"
    assert (job.requested.qsize(), grown["unknown"].decision_id) == (0, None)


def dropped_client(*names):
    """Return the futures of calls of a client that nothing refers to any more."""
    client = QuotaAdminClient({"bootstrap.servers": "127.0.0.1:1"})
    return [client.create_topics([NewTopic(name, 1)], request_timeout=0.5)[name] for name in names]


def used():
    """Return the numbers of threads of Python, of all threads and of open files."""
    gc.collect()
    return threading.active_count(), *(len([*Path(f"/proc/self/{kind}").iterdir()]) for kind in ("task", "fd"))


def test_a_client_that_is_dropped_leaves_nothing_behind(job):  # noqa: ARG001 it stands in for Kafka
    """As an AdminClient that a function makes for a call, and does not close, which it cannot.

    Whatever else this process does meanwhile takes less than one thread and one file for each of them.
    """
    before, clients = used(), 10
    for _ in range(clients):
        dropped_client()
    until(lambda: all(now < then + clients for now, then in zip(used(), before, strict=True)), seconds=10)


def test_the_calls_of_a_client_that_is_dropped_end_first(job):  # noqa: ARG001
    silent, created = dropped_client("silent", "a")
    assert created.result(10) is None
    assert error_of(silent) == "_TIMED_OUT"
    until(lambda: not threads(), seconds=10, poll_seconds=0.01)


def test_a_client_may_be_dropped_between_a_result_and_its_callbacks(client, monkeypatch, caplog):
    """The thread that waits for the result may run before the one that sets it goes on."""
    closed, invoke, close = threading.Event(), vars(Future)["_invoke_callbacks"], client.close
    monkeypatch.setattr(TopicFuture, "_invoke_callbacks", lambda future: closed.wait(10) and invoke(future))
    monkeypatch.setattr(client, "close", lambda **how: closed.set() or close(**how))
    assert call(client, "a")["a"].result(10) is None
    client.abandon()
    assert closed.is_set()
    assert not caplog.records


@pytest.mark.parametrize("seconds", [0, -1.0, 3601, float("inf"), float("nan")])
def test_an_invalid_time_limit_is_reported(client, seconds):
    with pytest.raises(ValueError, match="request_timeout is"):
        call(client, "a", seconds=seconds)


def test_closing_waits_for_calls(client):
    future = call(client, "a")["a"]
    client.close(wait_for_calls=True)
    assert future.result(0) is None
    with pytest.raises(RuntimeError, match="the client is closed"):
        call(client, "a")


@pytest.mark.parametrize("waits_for", ["nothing", "decision", "topics"])
def test_closing_without_waiting_fails_calls_at_once(client, job, waits_for):
    """Whether they have just been started, or wait for a decision or the target cluster."""
    finds, may_find, found = threading.Event(), threading.Event(), []

    def find(_):
        finds.set()
        found.append(may_find.wait(60))
        return [TopicMutation("silent", 1)]

    future = call(client, "silent", find=find if waits_for == "topics" else None)["silent"]
    assert waits_for == "nothing" or (finds if waits_for == "topics" else job.silent).wait(10)
    client.close(wait_for_calls=False)
    try:
        assert (future.exception(0).args[0].name(), found) == ("_DESTROY", [])
    finally:
        may_find.set()


def test_a_client_may_be_closed_before_its_threads_run(job, base_settings, monkeypatch):  # noqa: ARG001
    run, may_run = Dispatcher._run, threading.Event()  # noqa: SLF001
    monkeypatch.setattr(Dispatcher, "_run", lambda self: may_run.wait(10) and run(self))
    client = make_client(base_settings)
    future = call(client, "a")["a"]
    threading.Timer(0.1, may_run.set).start()
    client.close(wait_for_calls=False)
    assert future.exception(0).args[0].name() == "_DESTROY"


def test_callbacks_may_fail_or_make_requests_or_close_the_client(client, caplog):
    """They run on the thread of the client, which has to live on, and cannot wait for the other calls."""
    call(client, "silent")
    second_calls, closed = [], threading.Event()

    def ask(_):
        second_calls.append(call(client, "b")["b"])
        second_calls[0].add_done_callback(close)

    def close(_):
        client.close(wait_for_calls=True)
        closed.set()

    def fail(_):
        sys.exit("from a callback")

    def find(_):
        assert callbacks.wait(10)
        return [TopicMutation("a", 1)]

    callbacks = threading.Event()
    first = call(client, "a", find=find)["a"]
    first.add_done_callback(ask)
    first.add_done_callback(fail)
    callbacks.set()
    assert closed.wait(10)
    assert second_calls[0].result(0) is None
    assert "a callback of a future failed" in caplog.text
