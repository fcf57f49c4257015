"""Requests that are sent twice: charged once, for as long as the bucket remembers them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.enforce.packing import decode_bucket, encode_bucket
from quota.admission.decide import decide
from quota.algorithms.deduplication import AdmittedRequest, AdmittedRequests, Deduplication
from quota.algorithms.token_bucket import Bucket, TokenBucket
from quota.records.decision import Outcome, Repeat
from quota.records.quota_log import Quota, Window
from quota.records.record import Source
from tests.support.factories import PERMISSIVE, decide_all, resolved

KIP = Window(num=100)
MINUTE = Deduplication(window_ms=60_000)


def deduplicated(*requests, bucket=None, repeats=MINUTE):
    return decide_all(*requests, bucket=bucket, algorithm=TokenBucket(KIP, repeats))


def tokens(decisions):
    return [(decision.outcome, decision.tokens_before, decision.tokens) for decision in decisions]


def test_a_repeat_is_charged_once_and_says_so():
    """Q=5, B=500: 300 leave 200, a second later 205; the repeat costs nothing, another request does."""
    _, decisions = deduplicated(
        resolved(300, offset=7), resolved(300, at=1000, offset=8), resolved(300, at=1000, request_id="s", offset=9)
    )
    assert tokens(decisions) == [
        (Outcome.ADMITTED, 500, 200),
        (Outcome.ADMITTED, 205, 205),
        (Outcome.ADMITTED, 205, -95),
    ]
    assert [decision.repeats for decision in decisions] == [None, Repeat("mutation-requests-0-7", 1), None]


@pytest.mark.parametrize(
    "other",
    [
        {"client_id": "app"},
        {"request_id": "s"},
        {"operation": "DELETE_TOPICS"},
        {"topics": [{"name": "topic-0", "partitions": 301}]},
        {"topics": [{"name": "topic-0", "partitions": 300, "configs": {"a": "b"}}]},
    ],
)
def test_an_id_reused_for_another_request_is_charged(other):
    _, (_, second) = deduplicated(resolved(300), resolved(300, **other))
    assert second.repeats is None
    assert second.tokens <= -100


def test_a_repeat_is_free_and_its_topics_above_the_limit_are_rejected_again():
    """Of 100, 900, 100 and 900 a limit of 500 leaves the small ones; with a higher limit all are charged, once each."""
    limits = [500, 501, 1000, 1000]
    _, decisions = deduplicated(*(resolved(100, 900, 100, 900, max_request_mutations=limit) for limit in limits))
    rejected = [[topic.error_code for topic in decision.topics] for decision in decisions]
    assert rejected == [[0, 44, 0, 44], [0, 44, 0, 44], [0, 0, 89, 89], [0, 0, 89, 89]]
    assert [decision.tokens for decision in decisions] == [300, 300, -700, -700]
    assert [decision.repeats and decision.repeats.topics for decision in decisions] == [None, 3, None, 2]


def test_what_was_admitted_before_the_limit_is_not_charged_again_nor_rejected_by_a_limit():
    """Another request with the same topic is; a withdrawal gives the first one back."""
    _, (first, repeat, other, *_, last) = deduplicated(
        resolved(400),
        resolved(400, offset=1, max_request_mutations=300),
        resolved(400, request_id="s", max_request_mutations=300),
        resolved(90, 10),
        withdrawn(90, 10, offset=5, max_request_mutations=50),
    )
    assert [topic.error_code for topic in (first.topics + repeat.topics + other.topics)] == [0, 0, 44]
    assert (repeat.tokens, repeat.repeats, other.tokens) == (100, Repeat("mutation-requests-0-0", 1), 100)
    assert (last.tokens_before, last.tokens) == (0, 100)


@pytest.mark.parametrize("way", [{"purgatory_ms": 5}, {"expires_at": 9}])
def test_a_request_is_the_same_however_it_was_forwarded(way):
    _, (_, second) = deduplicated(resolved(300), resolved(300, **way))
    assert (second.tokens, second.repeats) == (200, Repeat("mutation-requests-0-0", 1))


def test_a_request_is_forgotten_a_window_after_it_was_seen_last():
    """Retries of a minute apart, however long they go on, are charged once: 400 of 500, and the bucket fills up."""
    times = [0, 60_000, 120_000, 180_001, 180_001]
    _, decisions = deduplicated(*[resolved(400, at=at, offset=at) for at in times])
    assert [decision.repeats is not None for decision in decisions] == [False, True, True, False, True]
    assert [decision.tokens for decision in decisions] == [100, 400, 500, 100, 100]


def test_a_late_repeat_does_not_shorten_the_window():
    times = [40_000, 0, 100_000]
    _, decisions = deduplicated(*[resolved(400, at=at, offset=offset) for offset, at in enumerate(times)])
    assert [decision.repeats is not None for decision in decisions] == [False, True, True]


@pytest.mark.parametrize(
    ("requests", "steps"),
    [
        # A repeat with an earlier timestamp is still a repeat.
        ([resolved(300, at=5000), resolved(300, at=4000, offset=1)], [(200, False), (200, True)]),
        # It is admitted although the bucket is now in debt.
        ([resolved(300), resolved(300, request_id="s"), resolved(300)], [(200, False), (-100, False), (-100, True)]),
        # A reset forgets requests, too.
        ([resolved(300), resolved(300, at=10, reset_at=5)], [(200, False), (200, False)]),
    ],
)
def test_a_repeat_is_recognized_by_its_bucket_alone(requests, steps):
    _, decisions = deduplicated(*requests)
    assert [(decision.tokens, decision.repeats is not None) for decision in decisions] == steps
    assert {decision.outcome for decision in decisions} == {Outcome.ADMITTED}


def test_a_rejected_request_cost_nothing_and_is_decided_again():
    """400 of 500, then 200 to -100: the third topic is rejected for 20 s; a repeat after them pays for it."""
    three = [400, 200, 50]
    bucket, (first, soon, waited, last) = deduplicated(
        *[resolved(*three, at=at, offset=at) for at in (0, 10_000, 20_000, 20_000)]
    )
    assert (first.outcome, first.tokens, first.throttle_time_ms) == (Outcome.PARTIAL, -100, 20_000)
    assert [topic.error_code for topic in soon.topics] == [0, 0, 89]
    assert (soon.tokens, soon.throttle_time_ms, soon.retry_at) == (-50, 10_000, 20_000)
    assert (waited.outcome, waited.tokens_before, waited.tokens) == (Outcome.ADMITTED, 0, -50)
    assert (last.outcome, last.tokens_before, last.tokens) == (Outcome.ADMITTED, -50, -50)
    assert [decision.repeats and decision.repeats.topics for decision in (first, soon, waited, last)] == [None, 2, 2, 3]
    assert {decision.repeats.decision_id for decision in (soon, waited, last)} == {"mutation-requests-0-0"}
    assert bucket.updated_at == 20_000


def test_a_permissive_repeat_has_the_remaining_throttle_time():
    """560 of 500 leave -60: 12 s. Five seconds later 7 s are left, and the repeat adds nothing to them."""
    _, (first, second) = deduplicated(
        resolved(560, api_version=PERMISSIVE), resolved(560, at=5000, api_version=PERMISSIVE)
    )
    assert (first.throttle_time_ms, second.throttle_time_ms) == (12_000, 7000)
    assert first.retry_at == second.retry_at == 12_000


def test_the_oldest_requests_are_forgotten_beyond_the_maximum():
    two = Deduplication(60_000, max_requests=2)
    requests = [resolved(1, request_id=name) for name in ("a", "b", "c", "a", "c")]
    bucket, decisions = deduplicated(*requests, repeats=two)
    assert [decision.repeats is not None for decision in decisions] == [False, False, False, False, True]
    assert len(bucket.admitted_requests) == 2


def test_expired_requests_are_forgotten_as_far_as_they_were_seen_first():
    """Two windows later: when c comes, a has expired, and b has not. So has d, which came late, and stays behind b."""
    times = {"a": 0, "b": 1000, "d": 0, "c": 120_500}
    requests = [resolved(1, request_id=name, at=at, offset=at) for name, at in times.items()]
    bucket, _ = deduplicated(*requests)
    assert len(bucket.admitted_requests) == 3
    _, (late,) = deduplicated(resolved(1, request_id="d", at=120_500), bucket=bucket)
    assert late.repeats is None


def test_without_deduplication_requests_are_forgotten_at_the_next_charge():
    remembering, _ = deduplicated(resolved(1))
    bucket, decision = decide(remembering, resolved(1), TokenBucket(KIP))
    assert (decision.tokens, decision.repeats) == (498, None)
    assert len(bucket.admitted_requests) == 0


def test_a_given_bucket_is_never_changed():
    """A batch that fails is decided again from the same state."""
    remembered = AdmittedRequests()
    remembered.put(b"a digest of 16 b", AdmittedRequest(Source("x", 0, 0), 0, 1), MINUTE, is_new=True)
    bucket, stored = Bucket(100, 0, Quota(5), admitted_requests=remembered), remembered.stored()
    deduplicated(resolved(1, at=70_000), bucket=bucket)
    assert remembered.stored() == stored


@given(st.lists(st.integers(0, 5), max_size=20))
def test_a_digest_is_found_where_it_begins_and_nowhere_else(steps):
    """Digests of few different bytes also occur across the bounds of others; three requests are remembered."""
    digests = [bytes([*[0] * zeros, *[1] * (16 - zeros)]) for zeros in (0, 4, 8, 12, 15, 16)]
    remembered, expected = AdmittedRequests(), {}
    for number, which in enumerate(steps):
        digest, request = digests[which], AdmittedRequest(Source(f"topic-{number % 2}", 3, number), number, 2)
        remembered.put(digest, request, Deduplication(60_000, 3), is_new=digest not in expected)
        expected.pop(digest, None)
        expected = dict([*expected.items(), (digest, request)][-3:])
        assert {key: remembered.find(key) for key in digests} == {key: expected.get(key) for key in digests}
        assert len(remembered) == len(expected)


def test_topics_of_forgotten_requests_are_forgotten():
    """Where users have topics of their own, thousands may share a bucket."""
    remembered, rule = AdmittedRequests(), Deduplication(60_000, 3)
    for number in range(100):
        request = AdmittedRequest(Source(f"requests.user-{number}", 0, number), number, 1)
        remembered.put(number.to_bytes(16), request, rule, is_new=True)
        kept = [remembered.find(seen.to_bytes(16)).source.offset for seen in range(max(number - 2, 0), number + 1)]
        assert kept == [*range(max(number - 2, 0), number + 1)]
        assert {remembered.find(seen.to_bytes(16)).source.topic for seen in kept} == {
            f"requests.user-{seen}" for seen in kept
        }
        assert len(remembered.stored()[2]) <= 8


def withdrawn(*partitions, **fields):
    return resolved(*partitions, validate_only=True, withdraws=True, **fields)


def given_back(*requests, **options):
    """Return the tokens after each request, and what each withdrawal gave back."""
    _, decisions = deduplicated(*requests, **options)
    return [
        (decision.tokens, decision.withdraws and (decision.withdraws.decision_id, decision.withdraws.mutations))
        for decision in decisions
    ]


FIRST = "mutation-requests-0-0"
NOTHING = (None, 0.0)


def test_a_charge_is_given_back_once_and_the_same_request_is_charged_again_afterwards():
    """Q=5, B=500: 300 leave 200; a second later 205 and 300 are 505, of which 500 fit. Then 300 again leave 200."""
    requests = [resolved(300), withdrawn(300, at=1000, offset=1), withdrawn(300, at=1000, offset=2)]
    assert given_back(*requests, resolved(300, at=1000, offset=3)) == [
        (200, None),
        (500, (FIRST, 300.0)),
        (500, NOTHING),
        (200, None),
    ]


@pytest.mark.parametrize(
    "other",
    [
        {"request_id": "s"},
        {"topics": [{"name": "topic-0", "partitions": 299}]},
        {"user": "bob"},
        {"partition": 1},
        {"at": 120_001},
    ],
    ids=["id", "cost", "user", "partition", "too late"],
)
def test_only_the_same_request_of_the_same_partition_is_withdrawn_for_two_windows(other):
    assert given_back(resolved(300, 5), withdrawn(300, 5, at=120_000))[1][1] == (FIRST, 305.0)
    assert given_back(resolved(300, 5), withdrawn(300, 5, **other))[1][1] == NOTHING


@pytest.mark.parametrize(
    ("requests", "back"),
    [
        ([resolved(300, validate_only=True)], NOTHING),
        ([resolved(501, request_id="s"), resolved(300)], NOTHING),  # rejected
        ([resolved(300, observed={"at": 0, "error_codes": [0]})], NOTHING),  # it has happened
        ([resolved(501, 300)], (FIRST, 501.0)),  # admitted in part
        ([resolved(501, 300, api_version=PERMISSIVE)], (FIRST, 801.0)),
        ([resolved(501, 300, shadow=True)], (FIRST, 501.0)),
        ([resolved(501, 300, max_debt_ms=100)], (FIRST, 500.5)),  # charged as far as the bound on debt
        ([resolved(300), resolved(300, at=50_000), resolved(300, at=90_000)], (FIRST, 300.0)),  # and repeated
        ([resolved(501, 300), resolved(501, 300, at=1000)], (FIRST, 801.0)),  # 501, and the rest when it was repeated
    ],
)
def test_what_is_given_back_is_what_was_charged(requests, back):
    last = requests[-1]
    ids = {"request_id": last.request.request_id, "api_version": last.request.api_version}
    costs = [topic.partitions for topic in last.request.topics]
    assert given_back(*requests, withdrawn(*costs, at=last.record.timestamp, **ids))[-1][1] == back


def test_a_bucket_that_was_reset_or_stored_by_a_program_without_withdrawals_gives_nothing_back():
    assert given_back(resolved(300), withdrawn(300, at=10, reset_at=5))[1] == (500, NOTHING)
    bucket, _ = deduplicated(resolved(300))
    older = AdmittedRequests(*bucket.admitted_requests.stored()[:3])
    stored = Bucket(200, 0, Quota(5), admitted_requests=older)
    again = [withdrawn(300), withdrawn(300, expires_at=0), resolved(300, at=1, offset=3)]
    free = (pytest.approx(200.005), None)
    assert given_back(*again, bucket=stored) == [(200, NOTHING), (200, NOTHING), free]  # a retry stays free


@pytest.mark.parametrize(
    ("attempts", "back"),
    [
        ([("asked", 9)], 300.0),
        ([("asked", 0), ("withdrawn", 0), ("asked", 9)], 300.0),
        ([("asked", 8)], 0.0),  # another one is withdrawn
        ([("asked", 9), ("withdrawn", 9), ("asked", 8)], 0.0),  # by its sender, before an applier withdraws it, too
        ([("asked", 9), ("asked", 8)], 0.0),  # the later one is carried out
        ([("asked", 8), ("asked", 9)], 0.0),  # the earlier one is
        ([("asked", 9), ("asked", 9)], 0.0),  # two gateways have the same limit
        ([("asked", 8), ("withdrawn", 8), ("asked", 9)], 300.0),
    ],
)
def test_a_withdrawal_gives_back_its_own_attempt_only_and_only_if_no_other_may_be_carried_out(attempts, back):
    """Attempts have the same id, and are told apart by their time limits."""
    make = {"asked": resolved, "withdrawn": withdrawn}
    requests = [make[kind](300, offset=offset, expires_at=at) for offset, (kind, at) in enumerate(attempts)]
    (*_, before), (*_, after) = (given_back(*sent) for sent in (requests, [*requests, withdrawn(300, expires_at=9)]))
    assert (after[0] - before[0], after[1][1], before[0]) == (back, back, 200)


@pytest.mark.parametrize("cut", [1, 3])
@given(st.integers(0, 700), st.integers(0, 30_000), st.integers(0, 30_000), st.integers(0, 700))
def test_a_withdrawn_request_leaves_the_tokens_as_if_it_had_never_been(cut, cost, before, after, other):
    """In one batch with its withdrawal or in two: what others paid, and what the bucket gained, stays."""
    old = resolved(other, request_id="s", api_version=PERMISSIVE)
    asked, back = resolved(cost, at=before, offset=1), withdrawn(cost, at=before + after, offset=2)
    bucket, _ = deduplicated(*[old, asked, back][:cut])
    _, decisions = deduplicated(*[old, asked, back][cut:], resolved(0, at=before + after, offset=3), bucket=bucket)
    _, expected = deduplicated(old, resolved(0, at=before + after, offset=3))
    assert decisions[-1].tokens == pytest.approx(expected[-1].tokens)


attempts = st.tuples(
    st.sampled_from("abc"), st.sampled_from([1, 200, 400]), st.integers(0, 9000), st.sampled_from([5, 6])
)


@given(st.lists(attempts, min_size=1, max_size=12), st.integers(0, 12))
def test_remembered_requests_are_the_same_in_any_batches(sequence, cut):
    """Two at most for five seconds, and from the state store in between."""
    few, now, requests = Deduplication(5000, max_requests=2), 0, []
    for offset, (request_id, partitions, later, api_version) in enumerate(sequence):
        now += later
        fields = {"request_id": request_id, "api_version": api_version}
        requests.append(resolved(partitions, 5, at=now, offset=offset, **fields))
    _, whole = deduplicated(*requests, repeats=few)
    bucket, first = deduplicated(*requests[:cut], repeats=few)
    kept = None if bucket is None else decode_bucket(encode_bucket(bucket))
    _, second = deduplicated(*requests[cut:], bucket=kept, repeats=few)
    assert first + second == whole
