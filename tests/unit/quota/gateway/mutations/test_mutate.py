"""Mutations without a decision, and the time limit of a decision."""

import pytest

from quota.records.request import MutationRequest, Operation, TopicMutation
from tests.support.wire.requests import creation, deletion, growth
from tests.unit.quota.gateway.cluster import Cluster

CREATION = creation("a")
SILENT = "no mutation has been decided for 10000 ms, is mutation-quota enforce running on kafka:9092?"
SLOW = "decisions take at least 900 ms at present"
TEN = MutationRequest("r", Operation.CREATE_TOPICS, 5, [TopicMutation("t", 10)])
SHADOW = {"outcome": "REJECTED", "error_codes": [89], "controller_throttle_ms": 9, "throttle_time_ms": 8}


def undecided(on, version=7, **verdict):
    """Create a topic without a decision; return error, message, and throttle time."""
    on.exchange(19, version, CREATION)
    on.no_decision(**verdict)
    (answer,) = on.answers()
    (result,) = answer["topics"]
    return result["errorCode"], result["errorMessage"], answer["throttleTimeMs"]


def test_fail_closed_responds_with_an_error_that_names_the_reason(play):
    """REQUEST_TIMED_OUT, and nothing is created. It says what is known: whether others are decided, and how fast."""
    on = play(when_silent="closed", enforced_by="kafka:9092")
    waited = "no decision on this mutation in 8000 ms, so nothing was changed; "
    assert undecided(on) == (7, waited + SILENT, 0)
    known = "no mutation has been decided for 10000 ms, a transaction has been open"
    assert undecided(on, cause="a transaction has been open") == (7, waited + known, 0)
    assert undecided(on, job_silent_ms=9_999, least_decision_ms=900) == (7, waited + SLOW, 0)
    assert on.changes_seen() == []


def test_fail_open_proceeds_without_a_decision(play):
    """The forwarded request has the rest of the client's timeout."""
    on = play(when_silent="open")
    assert undecided(on) == (0, None, 0)
    ((_, _, went_on),) = on.changes_seen()
    assert went_on["timeoutMs"] == 22_000


def test_fail_open_does_not_proceed_because_the_clients_own_time_limit_is_short(play):
    """Other requests are decided; this one will be, too, and is charged then."""
    on = play(when_silent="open")
    error, message, _ = undecided(on, waited_ms=160, job_silent_ms=9_999)
    assert (error, message[:38]) == (7, "no decision on this mutation in 160 ms")
    assert on.changes_seen() == []


def test_a_request_that_was_not_written_is_answered_with_the_reason(play):
    """Nothing has been decided for a while, or decisions take longer than the client waits. Neither is charged."""
    on = play(when_silent="closed", enforced_by="kafka:9092")
    unasked = "this mutation was not requested, and nothing was changed: 10000 ms are left for a decision; "
    assert undecided(on, was_requested=False) == (7, unasked + SILENT, 0)
    assert undecided(on, was_requested=False, job_silent_ms=300, least_decision_ms=900) == (7, unasked + SLOW, 0)
    assert on.changes_seen() == []


@pytest.mark.parametrize("when_silent", ["closed", "open"])
def test_the_reason_why_a_request_could_not_be_written_is_told(play, when_silent):
    """The job may well be running, so nobody is sent to look for it."""
    on = play(when_silent=when_silent)
    unwritten = "the request cannot be written to its topic: Broker: Topic authorization failed"
    told = f"no decision on this mutation, so nothing was changed: {unwritten}"
    assert undecided(on, waited_ms=3, job_silent_ms=0, error_code=29, error=unwritten) == (7, told, 0)
    assert on.changes_seen() == []


@pytest.mark.parametrize(("job_silent_ms", "error"), [(9_999, 7), (10_000, 0)])
def test_fail_open_proceeds_at_once_while_the_job_is_silent_and_not_with_a_timeout_that_is_too_short(
    play, job_silent_ms, error
):
    on = play(when_silent="open")
    assert undecided(on, waited_ms=0, job_silent_ms=job_silent_ms, was_requested=False)[0] == error


@pytest.mark.parametrize("when_silent", ["closed", "open"])
def test_an_invalid_request_is_rejected_with_the_reason_regardless_of_when_silent(play, when_silent):
    """The job has written a dead letter, or the request could not be written."""
    on = play(when_silent=when_silent)
    assert undecided(on, error_code=42, error="topics: more than 5000") == (42, "topics: more than 5000", 0)
    assert on.changes_seen() == []


@pytest.mark.parametrize(
    ("timeout_ms", "expected"),
    [(30_000, [10_000]), (5000, [4000]), (1, [0]), (0, []), (-1, []), (2**31 - 1, [10_000]), (-(2**31), [])],
)
def test_a_decision_may_take_four_fifths_of_the_clients_own_time_limit(play, timeout_ms, expected):
    """It is at most the gateway's own limit; a client that does not wait gets none."""
    on = play(decision_timeout_ms=10_000)
    on.exchange(19, 7, {**CREATION, "timeoutMs": timeout_ms})
    assert [wanted.timeout_ms for wanted in on.ports.requested] == expected


@pytest.mark.parametrize(("client_id", "expected"), [(None, "<none>"), ("", "<none>"), ("x" * 3000, "x" * 3000)])
def test_a_client_without_an_id_is_a_separate_client(play, client_id, expected):
    """Leaving it out does not evade the quota of default clients."""
    on = play(client_id=client_id)
    on.exchange(19, 7, CREATION)
    assert [ask.request.client_id for ask in on.ports.requested] == [expected]


OWED = {"user": "orders", "user_tag": "orders", "more_tags": {}, "tokens": -60.0}
"""The bucket of KIP-599's worked example, in the debt of its last decision."""
TOLD = "user orders may change 5 partitions/s and is 60 over; try again in 12 s; decision mutation-requests-1-7"


@pytest.mark.parametrize(
    ("key", "version", "message", "results"),
    [
        (19, 6, creation("there2"), "topics"),
        (19, 7, creation("there2"), "topics"),
        (37, 3, growth(there=9), "results"),
        (20, 5, {"topicNames": ["there"], "timeoutMs": 30_000}, "responses"),
        (20, 6, deletion("there"), "responses"),
    ],
)
def test_a_rejected_client_is_told_the_reason_in_every_version_that_knows_the_error(
    play, key, version, message, results
):
    """It says what was exceeded, by how much, when to try again, and the decision; an operator can add a line."""
    for template, told in (
        ("{reason}", TOLD),
        ("{reason}; quotas: wiki/kafka", f"{TOLD}; quotas: wiki/kafka"),
        ("", None),
    ):
        on = play(Cluster(there=1), rejection_message=template)
        on.mutate(key, version, message, rejected={"there", "there2"}, throttle_ms=12_000, **OWED)
        (answer,) = on.answers()
        (result,) = answer[results]
        assert (result["errorCode"], result["errorMessage"], answer["throttleTimeMs"]) == (89, told, 12_000)


def test_the_names_in_each_topics_message_leave_the_response_small(play):
    """A client-id may be as long as a string of Kafka's, and control characters are spelled out."""
    on = play(client_id="é" * 16_000)
    topics = [f"t{number}" for number in range(100)]
    owed = OWED | {"client_id": "é" * 16_000, "client_tag": "é" * 16_000}
    on.mutate(19, 6, creation(*topics), rejected=set(topics), throttle_ms=12_000, **owed)
    assert len(on.ports.client) < 200_000
    (answer,) = on.answers()
    assert {result["errorCode"] for result in answer["topics"]} == {89}


def test_what_a_known_debt_rejects_is_told_counted_and_reported_with_the_next_request(play):
    """There is no record of it; the time is what is left of the throttle time."""
    on = play()
    on.mutate(19, 7, CREATION, rejected={"a"}, throttle_ms=12_000, **OWED)

    def another(after_ms):
        """Return another connection of the client, after a time."""
        other = play(context=on.context)
        other.ports.time = on.ports.time + after_ms
        return other

    for after_ms in (400, 500):
        (told, _) = another(after_ms).call(19, 7, creation("b", "c"))["topics"]
    assert told["errorMessage"] == TOLD.replace("12 s", "11.5 s")
    assert on.context.stats.unrecorded == {("EXHAUSTED", "ANONYMOUS"): 4}
    in_vain = another(1000)
    in_vain.exchange(19, 7, CREATION)
    in_vain.no_decision(was_requested=False)
    assert [another(1000).mutate(19, 7, CREATION).unrecorded for _ in range(2)] == [4, 0]


def test_topics_are_counted_by_outcome_and_reason(play):
    on = play(Cluster(there=1))
    on.mutate(19, 7, creation("a", "b", "there"), rejected={"b"}, throttle_ms=1)
    stats = on.context.stats
    assert stats.mutations == {
        ("create_topics", "strict", "admitted", ""): 1,
        ("create_topics", "strict", "rejected", "EXHAUSTED"): 1,
        ("create_topics", "strict", "failed", ""): 1,
    }
    assert (stats.muted, stats.muted_ms, stats.unrecorded) == (1, 1, {})


@pytest.mark.parametrize(
    ("when_silent", "reply", "outcome", "reason"),
    [
        ("closed", {}, "undecided", "NO_DECISION"),
        ("closed", {"job_silent_ms": 0}, "undecided", "NO_DECISION"),  # the first ones after it has stopped
        ("closed", {"error": "cannot be written", "error_code": 29, "job_silent_ms": 0}, "undecided", "NO_DECISION"),
        ("closed", {"was_requested": False}, "undecided", "NO_DECISION"),
        ("closed", {"was_requested": False, "job_silent_ms": 9_999}, "undecided", "NO_TIME"),
        ("open", {}, "proceeded", ""),
        ("open", {"error": "topics: more than 5000", "error_code": 42}, "invalid", "INVALID"),
    ],
)
def test_topics_without_a_decision_are_counted_by_the_reason(play, when_silent, reply, outcome, reason):
    """A silent job, a client with too little time and an invalid request need different people."""
    on = play(when_silent=when_silent)
    undecided(on, 5, **reply)
    assert on.context.stats.mutations == {("create_topics", "permissive", outcome, reason): 1}
    unrecorded = {(reason, "ANONYMOUS"): 1} if outcome == "undecided" else {}
    assert on.context.stats.unrecorded == unrecorded


@pytest.mark.parametrize(
    ("throttle_ms", "decision_age_ms", "waited_ms", "left"),
    [
        (2000, 300, 350, 1700),  # the time since the decision counts
        (2000, 300, 200, 1800),  # a clock that is wrong takes no more than the time that was waited
        (2000, -50, 350, 2000),
        (200, 300, 350, 0),
    ],
)
def test_the_time_until_the_response_is_part_of_the_throttle_time(play, throttle_ms, decision_age_ms, waited_ms, left):
    """A request that a broker held back is treated the same: the debt is paid off since the request's own time."""
    on = play()
    on.mutate(
        19, 7, CREATION, rejected={"a"}, throttle_ms=throttle_ms, waited_ms=waited_ms, decision_age_ms=decision_age_ms
    )
    (answer,) = on.answers()
    assert answer["throttleTimeMs"] == left
    assert (on.context.mutes.next_at() or on.ports.time) == on.ports.time + left


def test_the_time_before_the_request_for_a_decision_is_part_of_the_clients_timeout(play):
    """The cluster took 3 s of 10 s to validate: 5 s are left for the decision; the rest is forwarded."""
    on = play()
    on.send(19, 7, {**CREATION, "timeoutMs": 10_000})
    on.ports.time += 3000
    on.serve()
    (ask,) = on.ports.requested
    assert ask.timeout_ms == 5000
    on.decide(waited_ms=4000)
    ((_, _, went_on),) = on.changes_seen()
    assert went_on["timeoutMs"] == 3000


@pytest.mark.parametrize(
    ("key", "version", "message", "results"),
    [
        (19, 7, CREATION, "topics"),
        (37, 3, growth(there=9), "results"),
        (20, 6, deletion("there"), "responses"),
    ],
)
def test_a_request_whose_validation_took_all_of_its_time_is_not_decided(play, key, version, message, results):
    """It would be charged, and forwarded with no time left. A millisecond earlier it is decided."""
    for took_ms, decided, codes in [(9999, 1, []), (10_000, 0, [7])]:
        on = play(Cluster(there=1))
        on.send(key, version, {**message, "timeoutMs": 10_000})
        on.ports.time += took_ms
        on.serve()
        assert len(on.ports.requested) == decided
        assert [topic["errorCode"] for answer in on.answers() for topic in answer[results]] == codes
        assert on.changes_seen() == []


def test_a_strict_client_in_debt_is_rejected_without_another_decision_for_a_second(play):
    """After it, a decision tells whether the quota was changed or the bucket was reset."""
    on = play()
    on.mutate(19, 7, CREATION, rejected={"a"}, throttle_ms=60_000)

    def again(after_ms, version=7, client_id="app"):
        """Create a topic on another connection; return the throttle time, or None if a decision is requested."""
        other = play(context=on.context, client_id=client_id)
        other.ports.time = on.ports.time + after_ms
        other.exchange(19, version, creation("b"))
        (answer,) = other.answers() or [None]
        return answer and (answer["topics"][0]["errorCode"], answer["throttleTimeMs"])

    assert again(0) == (89, 60_000)
    assert again(999) == (89, 59_001)
    assert again(1000) is None
    assert again(999, version=4) is None  # permissive: it is admitted and charged
    assert again(999, client_id="app2") is None


USERS = {"user_tag": "ANONYMOUS", "more_tags": {}}
"""The bucket of the user over all its clients, at 5 mutations a second and a burst of 55."""


def indebted(on, client_id="first", **fields):
    """Have a permissive client run into a debt of 20 mutations, or as the fields say, and leave."""
    first = type(on)(on.protocol, on.cluster, context=on.context, client_id=client_id)
    first.mutate(19, 5, creation("first"), throttle_ms=4000, **USERS | {"tokens": -20} | fields)
    first.channel.close()


@pytest.mark.parametrize("client_id", ["first", "another"])
@pytest.mark.parametrize(
    ("key", "version", "message"),
    [(19, 5, CREATION), (37, 2, growth(there=9)), (20, 3, {"topicNames": ["there"], "timeoutMs": 30_000})],
)
def test_a_permissive_client_that_connects_again_waits_for_its_debt_to_be_paid_off(
    play, key, version, message, client_id
):
    """Its mute has ended with its connection. Another client-id makes no difference for the user's one bucket."""
    on = play(Cluster(there=1), client_id=client_id)
    indebted(on)
    on.exchange(key, version, message)
    assert (on.ports.pauses, on.seen) == ([4000], [])
    on.end_pause()
    (ask,) = on.ports.requested
    assert ask.timeout_ms == 10_000


def test_a_client_that_waits_for_a_debt_waits_for_what_others_add_to_it_meanwhile(play):
    on = play()
    indebted(on)
    on.exchange(19, 5, CREATION)
    on.ports.time += 4000
    on.context.buckets.charge(("ANONYMOUS", "app"), TEN, on.ports.time)
    on.ports.pauses.clear()
    on.channel.go_on()
    assert on.ports.pauses == [2000]


@pytest.mark.parametrize(
    ("timeout_ms", "tokens", "paused"),
    [(3000, -20, [1500]), (2**31 - 1, -1e9, [300_000]), (30_000, 0.5, []), (0, -20, [])],
)
def test_a_permissive_client_is_held_for_half_of_its_time_and_then_admitted(play, timeout_ms, tokens, paused):
    """It is never rejected."""
    on = play()
    indebted(on, tokens=tokens)
    on.exchange(19, 5, {**CREATION, "timeoutMs": timeout_ms})
    assert on.ports.pauses == paused
    on.end_pauses()
    assert len(on.ports.requested) == (timeout_ms > 0)


@pytest.mark.parametrize(
    ("version", "options", "fields"),
    [
        (7, {}, {}),  # strict: it is rejected by its decision
        (5, {"client_id": "own"}, {}),  # another bucket, as its own decision told
        (5, {}, {"shadow": SHADOW}),
        (5, {}, {"exempt": True}),
        (5, {}, {"quota": None, "burst": None, "tokens": None}),
        (5, {}, {"user_tag": "", "client_tag": "first"}),  # the quota of a client-id
    ],
    ids=["strict", "own bucket", "shadow", "exempt", "unlimited", "by client-id"],
)
def test_who_owes_nothing_or_is_strict_is_not_held(play, version, options, fields):
    on = play(**options)
    if options:
        on.mutate(19, 7, creation("its-own"), **USERS | {"client_tag": "own", "tokens": 5})
    indebted(on, **fields)
    on.exchange(19, version, CREATION)
    assert (on.ports.pauses, len(on.ports.requested)) == ([], 1)


def test_a_channel_whose_client_is_held_by_its_debt_counts_as_idle(play):
    """As one that is muted: a gateway that stops does not wait for it."""
    on = play()
    indebted(on)
    on.exchange(19, 5, CREATION)
    assert on.channel.is_idle
    on.end_pause()
    assert not on.channel.is_idle


@pytest.mark.parametrize(("version", "codes", "throttle_ms"), [(7, [0, 89], 3000), (5, [0, 0], 9000)])
def test_fail_open_proceeds_as_far_as_the_clients_bucket_goes(play, version, codes, throttle_ms):
    """The job left it 15 tokens, and it gains 5 a second: an outage is not free for ever. No setting is needed."""
    on = play(when_silent="open")
    on.mutate(19, 7, creation("before"), tokens=15, **USERS)
    on.answers()
    on.exchange(19, version, creation("a", "b", partitions=30))
    on.no_decision(waited_ms=0, least_decision_ms=12_000)
    (answer,) = on.answers()
    assert ([topic["errorCode"] for topic in answer["topics"]], answer["throttleTimeMs"]) == (codes, throttle_ms)
    told = "user ANONYMOUS may change 5 partitions/s and is 15 over; try again in 3 s" if 89 in codes else None
    assert answer["topics"][-1]["errorMessage"] == told
    assert on.context.stats.uncharged == {"ANONYMOUS": 30 * codes.count(0)}
    assert on.context.buckets.debt_ms(("ANONYMOUS", "app"), on.ports.time + 1000) == throttle_ms - 1000


TOO_LARGE = (
    "The topic costs 30 mutations, and one topic may cost at most 20 (max_request_mutations); waiting does not help"
)


def test_a_topic_above_the_limit_has_an_error_that_no_client_retries_with_or_without_a_decision(play):
    """The other topic of the same request is created, and nobody is throttled."""
    on = play(when_silent="open")
    on.mutate(19, 7, creation("a", "b"), exceeding={"a"}, tokens=15, max_request_mutations=20, **USERS)
    on.exchange(19, 7, creation("c", partitions=30))
    on.no_decision(waited_ms=0, least_decision_ms=12_000)
    answers = on.answers()
    assert [answer["throttleTimeMs"] for answer in answers] == [0, 0]
    results = {
        topic["name"]: (topic["errorCode"], topic["errorMessage"]) for each in answers for topic in each["topics"]
    }
    assert results == {"a": (44, "The topic costs too much"), "b": (0, None), "c": (44, TOO_LARGE)}
    assert [topic["name"] for _, _, message in on.changes_seen() for topic in message["topics"]] == ["b"]
    assert on.context.stats.mutations["create_topics", "strict", "rejected", "EXCEEDS_LIMIT"] == 2
    assert on.context.stats.unrecorded == {("EXCEEDS_LIMIT", "ANONYMOUS"): 1}


def test_a_known_debt_does_not_hide_that_a_topic_is_above_the_limit(play):
    """With a smaller topic it is rejected without a decision; alone, it is decided, since it throttles nobody."""
    on = play()
    fields = {"tokens": -20, "max_request_mutations": 20, **USERS}
    on.mutate(19, 7, CREATION, rejected={"a"}, throttle_ms=60_000, **fields)
    on.answers()
    other = play(context=on.context)
    other.exchange(19, 7, {**creation("b"), "topics": creation("b")["topics"] + creation("c", partitions=30)["topics"]})
    (answer,) = other.answers()
    assert [topic["errorCode"] for topic in answer["topics"]] == [89, 44]
    assert (answer["topics"][1]["errorMessage"], answer["throttleTimeMs"]) == (TOO_LARGE, 60_000)
    third = play(context=on.context)
    third.exchange(19, 7, creation("c", partitions=30))
    assert third.answers() == []


def test_fail_open_does_not_limit_a_client_whose_bucket_is_not_known(play):
    on = play(when_silent="open")
    for name in ("a", "b"):
        on.exchange(19, 7, creation(name, partitions=1000))
        on.no_decision()
    assert [topic["errorCode"] for answer in on.answers() for topic in answer["topics"]] == [0, 0]
    assert on.context.stats.uncharged == {"ANONYMOUS": 2000}
