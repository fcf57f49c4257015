"""The applier on a real cluster: what it carries out, what it does not, and that it does each mutation once."""

import itertools
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import NewPartitions, NewTopic

from jobs.metrics.loops import ApplierMetrics
from jobs.sandbox.broker import free_port
from jobs.services.loops import run_apply
from quota.admission.decide import decide
from quota.algorithms.token_bucket import TokenBucket
from quota.errors import ClusterError
from quota.kafka import applier as applier_module
from quota.kafka import librdkafka, producers
from quota.kafka.applier import Applier, ApplierStats
from quota.kafka.applier_ledger import Ledger
from quota.kafka.producers import TakenOver
from quota.kafka.reading import read_topic
from quota.kafka.target import Target
from quota.kafka.timing import Every
from quota.kafka.topics.preparation import prepare_topics
from quota.records import codec
from quota.records.decision import read_decision
from quota.records.entity import Tags
from quota.records.levels import Resolution, ResolvedRequest
from quota.records.quota_log import Window
from quota.records.record import Record, Source
from quota.records.request import read_request
from tests.support.deployment import prepared_deployment, with_sections
from tests.support.factories import read_result, request_json
from tests.support.monitoring import samples
from tests.support.topics import admin_of, produce
from tests.support.waiting import until

OFFSETS = itertools.count()
"""Of requests, which tell their decisions apart."""


class Bench:
    """A deployment without the job: tests write the decisions into their topic."""

    def __init__(self, settings):
        self.settings = settings
        self.admin = admin_of(settings)

    def decided(self, operation, *topics, seconds_ago=0, **fields):
        """The bytes of a decision that admits topics, each a dict."""
        value = request_json(**{"operation": operation, "topics": list(topics), "api_version": 9, **fields})
        record = Record(Source("requests", 0, next(OFFSETS)), round((time.time() - seconds_ago) * 1000), value)
        unlimited = Resolution(Tags("", ""), None, None)
        resolved = ResolvedRequest(record, read_request(value), unlimited)
        _, decision = decide(None, resolved, TokenBucket(Window(11, 1)))
        return codec.encode(decision)

    def repeated(self, decision):
        """The bytes of the decision on the same request, sent again."""
        decision = json.loads(decision)
        first, decision["decision_id"] = decision["decision_id"], f"requests-0-{next(OFFSETS)}"
        return codec.encode({**decision, "repeats": {"decision_id": first, "topics": len(decision["topics"])}})

    def write(self, *decisions):
        """Put decisions into their topic, all into one partition."""
        produce(self.settings, self.settings.topics.decisions, *decisions)

    def admit(self, operation, *topics, **fields):
        """Put an admitted request there."""
        self.write(self.decided(operation, *topics, **fields))

    def apply(self):
        """Run an applier over the existing decisions, and return its counts."""
        applier = Applier(self.settings, threading.Event())
        applier.run(once=True)
        return applier.stats

    def read_results(self):
        """The topics of all results by now, decision by decision in their order."""
        messages = read_topic(self.settings.kafka.connection, self.settings.topics.results, 10)
        read_results = [read_result(message.value()) for message in messages]
        return [result.topics for result in sorted(read_results, key=lambda result: result.source.offset)]

    def results(self):
        """The same in short: (topic, error, found_done)."""
        return [[(result.name, result.error, result.found_done) for result in topics] for topics in self.read_results()]

    def partitions(self, name):
        """Return the number of partitions of a topic; None if there is none."""
        topic = self.admin.list_topics(timeout=10).topics.get(name)
        return None if topic is None else len(topic.partitions)


@pytest.fixture
def bench(deployment):
    prepare_topics(deployment)
    return Bench(deployment)


@pytest.fixture
def kill(bench, monkeypatch):
    """Run an applier that is killed before it carries out a batch, or after that and before it writes a result."""

    def dies(*_):
        raise SystemExit

    def _kill(moment):
        commit = Ledger.commit
        with monkeypatch.context() as patch:
            if moment == "before":
                patch.setattr(applier_module.Target, "carry_out", dies)
            else:
                patch.setattr(Ledger, "commit", lambda self, results=(): dies() if list(results) else commit(self))
            with pytest.raises(SystemExit):
                bench.apply()

    return _kill


def topic(name, partitions, **fields):
    return {"name": name, "partitions": partitions, **fields}


def test_admitted_topics_are_created_as_requested(bench):
    bench.admit(
        "CREATE_TOPICS",
        topic("made-plain", 2),
        topic("made-config", 1, configs={"retention.ms": "12345"}),
        topic("made-assigned", 2, assignments=[[1], [1]]),
        topic("made-factor", 1, replication_factor=1),
    )
    bench.apply()
    names = ["made-plain", "made-config", "made-assigned", "made-factor"]
    assert bench.results() == [[(name, "NONE", False) for name in names]]
    assert [bench.partitions(name) for name in names] == [2, 1, 2, 1]


IMPOSSIBLE = [
    ("CREATE_TOPICS", topic("bad/name", 1), "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: 'bad/name'"),
    ("CREATE_TOPICS", topic("huge", 2_000_000), "INVALID_REQUEST", "num_partitions out of expected range"),
    ("CREATE_TOPICS", topic("odd", 1, configs={"nope": "1"}), "INVALID_CONFIG", "Unknown topic config name: nope"),
    ("CREATE_TOPICS", topic("less", 1, assignments=[[1], [1]]), "INVALID_REQUEST", "outer size of num_partitions"),
    ("CREATE_TOPICS", topic("there", 1), "TOPIC_ALREADY_EXISTS", "Topic 'there' already exists."),
    ("CREATE_TOPICS", topic("__mine", 1), "TOPIC_AUTHORIZATION_FAILED", "topic __mine is protected"),
    ("CREATE_PARTITIONS", topic("gone", 1, count=2), "UNKNOWN_TOPIC_OR_PARTITION", "Unknown topic or partition"),
    ("CREATE_PARTITIONS", topic("there", 1, count=2), "INVALID_PARTITIONS", "would not be an increase"),
    ("CREATE_PARTITIONS", topic("there", 1, count=9), "POLICY_VIOLATION", "costs 6 mutations, and 1 was charged"),
    ("CREATE_PARTITIONS", topic("there", 1), "POLICY_VIOLATION", "the request has no count"),
    ("DELETE_TOPICS", topic("gone", 3), "UNKNOWN_TOPIC_OR_PARTITION", "Unknown topic or partition"),
    ("DELETE_TOPICS", topic("there", 2), "POLICY_VIOLATION", "costs 3 mutations, and 2 were charged"),
]


def test_a_failed_mutation_is_reported_with_the_clusters_own_message(bench):
    bench.admin.create_topics([NewTopic("there", 3)])["there"].exception()
    for operation, requested, _, _ in IMPOSSIBLE:
        bench.admit(operation, requested)
    bench.apply()
    results = bench.read_results()
    assert [(result.name, result.error) for (result,) in results] == [
        (requested["name"], error) for _, requested, error, _ in IMPOSSIBLE
    ]
    for (message_count,), (_, _, _, message) in zip(results, IMPOSSIBLE, strict=True):
        assert message in message_count.error_message


def test_no_user_can_change_the_deployments_own_topics(bench):
    mine = bench.settings.topics.decisions
    bench.admit("DELETE_TOPICS", topic(mine, 1000))
    bench.apply()
    assert bench.results() == [[(mine, "TOPIC_AUTHORIZATION_FAILED", False)]]
    assert bench.partitions(mine) == 2


def test_malicious_requests_affect_no_other_client(bench):
    """librdkafka ends a name at a zero character, and a name that is too long breaks the connection."""
    mine = bench.settings.topics.decisions
    bench.admit("DELETE_TOPICS", topic(f"{mine}\0", 2), topic("", 0))
    bench.admit("CREATE_PARTITIONS", topic("", 0, count=1))
    bench.admit("CREATE_TOPICS", topic("x" * 40_000, 1), topic("valid", 1))
    bench.admit("CREATE_TOPICS", topic("zero-in-config", 1, configs={"retention.ms": "1\0002"}))
    bench.admit("CREATE_TOPICS", topic("long-config", 1, configs={"retention.ms": "1" * 40_000}))
    bench.admit("CREATE_TOPICS", *[topic("same", 0)] * 3)
    bench.write(b"\xff\xff", b"[" * 5000, b"null", b"")
    bench.admit("CREATE_TOPICS", topic("fine-after", 1))
    bench.apply()
    assert [[(result.error, result.name[:20]) for result in topics] for topics in bench.read_results()] == [
        [("INVALID_TOPIC_EXCEPTION", f"{mine}\0"[:20]), ("UNKNOWN_TOPIC_OR_PARTITION", "")],
        [("UNKNOWN_TOPIC_OR_PARTITION", "")],
        [("INVALID_TOPIC_EXCEPTION", "x" * 20), ("NONE", "valid")],
        [("INVALID_TOPIC_EXCEPTION", "zero-in-config")],
        [("INVALID_TOPIC_EXCEPTION", "long-config")],
        [("INVALID_REQUEST", "same")] * 3,
        [("NONE", "fine-after")],
    ]
    assert (bench.partitions(mine), bench.partitions("fine-after")) == (2, 1)


@pytest.mark.parametrize(("limit", "message_count"), [(64 * 1024, 1000), (1024, 0)])
def test_a_result_too_large_for_its_topic_is_shortened(bench, limit, message_count, monkeypatch):
    """It has no messages, or no topics if the jobs have a different limit than the applier."""
    monkeypatch.setattr("quota.kafka.applier_ledger.MAX_ANSWER_BYTES", 6 * limit + 8192)
    bench.settings = with_sections(bench.settings, applier={"topic_pattern": "nothing"})
    bench.admit("CREATE_TOPICS", *[topic(f"t{number}", 0) for number in range(1000)], user="u" * 10_000)
    assert bench.apply().failed == 1000
    (topics,) = bench.read_results()
    assert [result.error_message for result in topics] == [None] * message_count


def test_invalid_results_stop_no_client(bench):
    for part in (bench.settings.topics.results, bench.settings.topics.positions):
        produce(bench.settings, part, b"\xffno result", key=bench.settings.applier.group.encode())
    bench.admit("CREATE_TOPICS", topic("despite-junk", 1))
    assert bench.apply().topics == 1


def test_tenants_can_be_restricted_to_their_own_topics(bench):
    bench.settings = with_sections(bench.settings, applier={"topic_pattern": r"{user}-.+"})
    bench.admit("CREATE_TOPICS", topic("dora-kept", 1), topic("bob-kept", 1), user="dora")
    bench.apply()
    assert bench.results() == [[("dora-kept", "NONE", False), ("bob-kept", "TOPIC_AUTHORIZATION_FAILED", False)]]


def test_old_api_versions_can_be_excluded(bench):
    """They are always admitted: without a gateway that mutes them, they would bypass the quotas."""
    bench.settings = with_sections(bench.settings, applier={"permissive": False})
    bench.admit("CREATE_TOPICS", topic("old-version", 1), api_version=5)
    bench.admit("CREATE_TOPICS", topic("new-version", 1), api_version=6)
    bench.apply()
    assert bench.results() == [[("old-version", "POLICY_VIOLATION", False)], [("new-version", "NONE", False)]]


def test_mutations_that_are_the_clients_own_or_late_or_rejected_are_not_carried_out(bench):
    bench.admit("CREATE_TOPICS", topic("left-own", 1), apply=False)
    bench.admit("CREATE_TOPICS", topic("left-late", 1), expires_at=1)
    bench.admit("CREATE_TOPICS", topic("left-old", 1), seconds_ago=3601)
    rejected = json.loads(bench.decided("CREATE_TOPICS", topic("left-no", 1)))
    rejected["topics"][0] |= {"error_code": 89, "error": "THROTTLING_QUOTA_EXCEEDED"}
    debt = {"outcome": "REJECTED", "quota": 5.0, "tokens": -60.0, "user_tag": "alice", "retry_at": 2**41}
    bench.write(codec.encode(rejected | debt))
    bench.write(b"no decision at all")
    bench.write(b'{"shadow": {"outcome": "of a later program"}}')
    assert bench.apply().failed == 2  # a rejection is none of the cluster's failures
    assert bench.results() == [
        [("left-late", "REQUEST_TIMED_OUT", False)],
        [("left-old", "REQUEST_TIMED_OUT", False)],
        [("left-no", "THROTTLING_QUOTA_EXCEEDED", False)],
    ]
    (told,) = bench.read_results()[-1]
    assert told.error_message.startswith("user alice may change 5 partitions/s and is 60 over; try again in ")
    assert [bench.partitions(f"left-{name}") for name in ("own", "late", "old", "no")] == [None] * 4


def test_what_had_expired_before_it_was_started_is_withdrawn_next_to_its_request(bench):
    """Unless it may have been carried out, was charged nothing, or is of another topic."""
    topics = bench.settings.topics
    charged = {"quota": 5.0, "burst": 55.0, "tokens": 52.0, "tokens_before": 55.0, "user_tag": "alice"}
    source = {"topic": topics.requests, "partition": 0, "offset": 7}

    def decided(name, **more):
        made = json.loads(bench.decided("CREATE_TOPICS", topic(name, 3), expires_at=more.pop("expires_at", 1)))
        return codec.encode({**made, **charged, "source": source, **more})

    first = decided("expired-late")
    other = source | {"topic": "elsewhere"}
    bench.write(
        first, bench.repeated(first), decided("expired-free", quota=None), decided("expired-other", source=other)
    )
    bench.write(decided("expired-not", expires_at=253_402_300_799_999))
    bench.apply()
    (message,) = read_topic(bench.settings.kafka.connection, topics.requests, 10)
    withdrawal = read_request(message.value())
    assert withdrawal == read_decision(first).request.withdrawal
    assert (message.partition(), withdrawal.topics[0].name, withdrawal.withdraws) == (0, "expired-late", True)
    assert (bench.partitions("expired-late"), bench.partitions("expired-not")) == (None, 3)


def test_validate_only_changes_nothing(bench):
    bench.admin.create_topics([NewTopic("checked-there", 1)])["checked-there"].exception()
    bench.admit("CREATE_TOPICS", topic("checked-new", 1), topic("checked-there", 1), validate_only=True)
    bench.admit("CREATE_PARTITIONS", topic("checked-there", 1, count=2), validate_only=True)
    bench.admit("DELETE_TOPICS", topic("checked-there", 1), topic("checked-gone", 1), validate_only=True)
    bench.apply()
    assert bench.results() == [
        [("checked-new", "NONE", False), ("checked-there", "TOPIC_ALREADY_EXISTS", False)],
        [("checked-there", "NONE", False)],
        [("checked-there", "NONE", False), ("checked-gone", "UNKNOWN_TOPIC_OR_PARTITION", False)],
    ]
    assert (bench.partitions("checked-new"), bench.partitions("checked-there")) == (None, 1)


def test_a_topic_is_created_grown_and_deleted_in_one_batch(bench):
    """Each step is decided by the result of the one before, even if a broker does not know it yet."""
    bench.admit("CREATE_TOPICS", topic("life", 1))
    bench.admit("CREATE_PARTITIONS", topic("life", 2, count=3))
    bench.admit("CREATE_PARTITIONS", topic("life", 2, count=5))
    bench.admit("DELETE_TOPICS", topic("life", 5))
    bench.admit("CREATE_TOPICS", topic("life", 4))
    bench.apply()
    assert bench.results() == [[("life", "NONE", False)]] * 5
    assert bench.partitions("life") == 4


def test_a_duplicated_decision_is_carried_out_once(bench):
    """Its second copy may come after a restart, and after the created topic was deleted."""
    create = bench.decided("CREATE_TOPICS", topic("twice", 1))
    bench.write(create, create)
    bench.admit("DELETE_TOPICS", topic("twice", 1))
    bench.apply()
    bench.write(create)
    assert bench.apply().repeated == 1
    assert bench.partitions("twice") is None
    assert len(bench.results()) == 2


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_applier_killed_in_a_batch_skips_nothing_and_does_nothing_twice(bench, kill, moment):
    """It is killed before it has carried out anything, or after everything and before any result is written."""
    names = [f"dying-{moment}-{part}" for part in ("made", "grown", "gone")]
    bench.admin.create_topics([NewTopic(names[1], 1), NewTopic(names[2], 2)])[names[2]].result()
    bench.apply()
    bench.admit("CREATE_TOPICS", topic(names[0], 2))
    bench.admit("CREATE_PARTITIONS", topic(names[1], 2, count=3))
    bench.admit("DELETE_TOPICS", topic(names[2], 2))
    kill(moment)
    bench.apply()
    found_done = moment == "after"
    assert bench.results() == [[(name, "NONE", found_done)] for name in names]
    assert [bench.partitions(name) for name in names] == [2, 3, None]


def test_an_applier_killed_in_a_batch_deletes_no_topic_that_was_created_again(bench, kill):
    """It is killed after the deletion, and again before it has repeated the batch. Another deletion is carried out."""
    bench.admin.create_topics([NewTopic("again", 3)])["again"].result()
    until(lambda: bench.partitions("again") == 3)
    bench.apply()
    bench.admit("DELETE_TOPICS", topic("again", 3))
    kill("after")
    bench.admin.create_topics([NewTopic("again", 3)])["again"].result()
    until(lambda: bench.partitions("again") == 3)
    kill("before")
    bench.apply()
    assert bench.results() == [[("again", "NONE", True)]]
    assert bench.partitions("again") == 3
    bench.admit("DELETE_TOPICS", topic("again", 3))
    bench.apply()
    assert bench.results()[1:] == [[("again", "NONE", False)]]
    until(lambda: bench.partitions("again") is None)


def test_after_a_clean_stop_nothing_is_mistaken_for_done(bench):
    """An existing topic belongs to another client, even if it is just as requested."""
    bench.apply()
    bench.admin.create_topics([NewTopic("others", 1)])["others"].exception()
    bench.admit("CREATE_TOPICS", topic("others", 1))
    bench.apply()
    assert bench.results() == [[("others", "TOPIC_ALREADY_EXISTS", False)]]


def test_a_replaced_applier_begins_nothing_more(bench):
    first, second = (Applier(bench.settings, threading.Event()) for _ in range(2))
    bench.admit("CREATE_TOPICS", topic("only-by-the-second", 1))
    with pytest.raises(ClusterError, match=r"another applier of the group .* has taken over"):
        first.run(once=True)
    assert bench.partitions("only-by-the-second") is None
    second.run(once=True)
    assert bench.results() == [[("only-by-the-second", "NONE", False)]]


def test_a_replaced_idle_applier_ends_too(bench, monkeypatch):
    monkeypatch.setattr(applier_module, "_REFRESH_SECONDS", 0.2)
    first = Applier(bench.settings, threading.Event())
    Applier(bench.settings, threading.Event())
    with pytest.raises(TakenOver):
        first.run()


def test_an_applier_replaced_in_a_batch_ends_before_its_next_call(bench, monkeypatch):
    bench.admin.create_topics([NewTopic("kept-by-the-second", 1)])["kept-by-the-second"].result()
    bench.admit("CREATE_TOPICS", topic("made-by-the-first", 1))
    bench.admit("DELETE_TOPICS", topic("kept-by-the-second", 1))
    first = Applier(bench.settings, threading.Event())
    change = Target._change  # noqa: SLF001

    def and_a_second_is_started(self, tasks, seconds):
        answers = change(self, tasks, seconds)
        Applier(bench.settings, threading.Event())
        return answers

    monkeypatch.setattr(Target, "_change", and_a_second_is_started)
    with pytest.raises(TakenOver):
        first.run(once=True)
    assert (bench.partitions("made-by-the-first"), bench.partitions("kept-by-the-second")) == (1, 1)


def test_an_unavailable_target_is_not_awaited_forever(bench, monkeypatch):
    describe, limits = Target._describe, []  # noqa: SLF001
    monkeypatch.setattr(Target, "_describe", lambda *args: limits.append(args[-1]) or describe(*args))
    target = f"127.0.0.1:{free_port()}"
    bench.settings = with_sections(bench.settings, kafka={"target_servers": target}, applier={"timeout_seconds": 1.0})
    bench.admit("CREATE_TOPICS", topic("nowhere", 1))
    bench.admit("DELETE_TOPICS", topic("nowhere", 1))
    assert bench.apply().failed == 2
    assert {error for ((_, error, _),) in bench.results()} <= {"_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN"}
    assert max(limits) <= 1.0


def test_partitions_added_to_the_decisions_topic_are_read_too(bench, monkeypatch):
    monkeypatch.setattr(applier_module, "_REFRESH_SECONDS", 0.2)
    stop = threading.Event()
    applier = Applier(bench.settings, stop)
    running = threading.Thread(target=applier.run)
    running.start()
    decisions = bench.settings.topics.decisions
    bench.admin.create_partitions([NewPartitions(decisions, 3)])[decisions].result()
    produce(bench.settings, decisions, bench.decided("CREATE_TOPICS", topic("in-a-new-partition", 1)), partition=2)
    until(lambda: applier.stats.topics)
    stop.set()
    running.join(10)
    assert (applier.stats.topics, bench.partitions("in-a-new-partition")) == (1, 1)


def test_an_idle_applier_whose_cluster_is_lost_ends_after_its_time_limit(
    base_settings, another_broker, tmp_path, monkeypatch
):
    """A cluster that does not answer for a shorter time is not lost."""
    monkeypatch.setattr(applier_module, "_REFRESH_SECONDS", 0.2)
    monkeypatch.setattr(librdkafka, "_CAUSE_SECONDS", 0.1)
    settings = prepared_deployment(base_settings, another_broker, "away", tmp_path)
    settings = with_sections(settings, kafka={"timeout_seconds": 0.5}, applier={"timeout_seconds": 6.0})
    stop = threading.Event()
    applier, bench = Applier(settings, stop), Bench(settings)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(applier.run)
        try:
            bench.admit("CREATE_TOPICS", topic("applied-before", 1))
            until(lambda: applier.stats.batches == 1)
            applier._refresh = Every(3600.0, at_once=False)  # noqa: SLF001 it writes nothing when the broker stops
            idle_since = time.monotonic()
            until(lambda: applier.stats.looped_at > idle_since)
            another_broker.stop()
            applier._refresh = Every(0.2)  # noqa: SLF001
            with pytest.raises(ClusterError, match=f"^cannot find the partitions of {settings.topics.decisions}: "):
                running.result(60)
            assert time.monotonic() - idle_since > 4.0
        finally:
            stop.set()


@pytest.mark.timeout(120)
def test_an_applier_whose_cluster_is_lost_while_it_writes_ends_and_the_next_one_continues(
    base_settings, another_broker, tmp_path, monkeypatch
):
    """The broker stops when the topic is created and its result is not written yet; without it none starts."""
    settings = prepared_deployment(base_settings, another_broker, "writing", tmp_path)
    settings = with_sections(settings, kafka={"timeout_seconds": 2.0})
    bench, commit = Bench(settings), Ledger.commit
    bench.admit("CREATE_TOPICS", topic("made-before-the-stop", 1))

    def stop_and_commit(self, results=()):
        if results := list(results):
            another_broker.stop()
        commit(self, results)

    with monkeypatch.context() as patch:
        patch.setattr(producers, "_MIN_TIMEOUT_SECONDS", 1.0)
        patch.setattr(Ledger, "commit", stop_and_commit)
        with pytest.raises(ClusterError, match=r"^cannot write as applier .* Connection refused"):
            run_apply(settings, once=False)
    with pytest.raises(ClusterError, match="Connection refused"):
        run_apply(settings, once=False)
    another_broker.start()
    bench.apply()
    assert bench.results() == [[("made-before-the-stop", "NONE", True)]]


def test_a_request_that_was_sent_twice_is_carried_out_once(bench):
    """The second decision reports the topic, and does not create it again: nothing was charged for that."""
    create = bench.decided("CREATE_TOPICS", topic("sent-twice", 2))
    delete = bench.decided("DELETE_TOPICS", topic("sent-twice", 2))
    bench.write(create, bench.repeated(create))
    bench.apply()
    bench.write(delete, bench.repeated(create), bench.repeated(delete))
    bench.apply()
    until(lambda: bench.partitions("sent-twice") is None)
    (made, repeated, deleted, again, gone) = bench.read_results()
    assert [(result.error, result.found_done) for (result,) in (made, repeated, deleted, gone)] == [
        ("NONE", False),
        ("NONE", True),
        ("NONE", False),
        ("NONE", True),
    ]
    assert again[0].error == "POLICY_VIOLATION"
    assert "admitted this before, and it is not carried out twice" in again[0].error_message


def test_an_applier_reports_outcomes_by_topic_and_its_lag(bench, monkeypatch):
    """One topic is created and one exists already; then two decisions come that no applier processes."""
    monkeypatch.setattr("jobs.metrics.loops._ENDS_SECONDS", 0.0)
    tally = ApplierStats()
    metrics = ApplierMetrics(bench.settings, tally)
    for _ in range(2):
        bench.admit("CREATE_TOPICS", topic("reported", 1))
    Applier(bench.settings, threading.Event(), tally).run(once=True)
    lags = []
    for _ in range(2):
        metrics.poll()
        reported = samples(metrics.families())
        lags.append(reported["mutation_quota_query_lag_records", ("query", "applier")])
        bench.admit("CREATE_TOPICS", topic("another", 1))
        bench.admit("CREATE_TOPICS", topic("and-another", 1))
    assert lags == [0, 2]
    assert reported["mutation_quota_applied_topics_total", ("outcome", "carried_out")] == 1
    assert reported["mutation_quota_applied_topics_total", ("outcome", "failed")] == 1
    assert reported["mutation_quota_query_batches_total", ("query", "applier")] == 1
