"""`simulate`: files in, one answer a line out."""

import json

import pytest

from tests.support.factories import request_at as at
from tests.support.factories import request_json
from tests.support.programs import run

ALICE = {"entity": {"user": "alice"}, "controller_mutation_rate": 5}


@pytest.fixture
def run_simulate(tmp_path):
    """Run the command with lines of requests and of quotas; what it did."""

    def _run(requests, quotas, *options):
        (tmp_path / "requests.jsonl").write_bytes(b"".join(line + b"\n" for line in requests))
        (tmp_path / "quotas.jsonl").write_text("".join(json.dumps(quota) + "\n" if quota else "\n" for quota in quotas))
        return run("simulate", "requests.jsonl", "--quotas", "quotas.jsonl", *options, cwd=tmp_path)

    return _run


@pytest.fixture
def simulate(run_simulate):
    """Run the command; answers as dicts."""

    def _simulate(requests, quotas=(ALICE,), *options, exit_code=0):
        done = run_simulate(requests, quotas, *options)
        assert done.returncode == exit_code, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return _simulate


@pytest.mark.parametrize(
    ("algorithm", "tokens", "repeats"),
    [("token-bucket", 500, True), ("sampled-rate", None, False), ("spread-rate", None, False)],
)
def test_a_repeated_request_is_charged_once_by_the_algorithm_that_is_enforced(simulate, algorithm, tokens, repeats):
    """60 of 500 tokens, which are back 12 s later. The rates of KIP-599 know no repeats."""
    _, second = simulate([at(0, 60), at(12_000, 60)], [ALICE], "--window-num", "100", "--algorithm", algorithm)
    assert (second["tokens"], bool(second["repeats"])) == (tokens, repeats)


def test_a_decision_has_every_field_of_the_record(simulate):
    (answer,) = simulate([at(1000, 60, client_id="app", request_throttle_ms=7)])
    assert answer == {
        "decision_id": "mutation-requests-0-0",
        "request_id": "r",
        "user": "alice",
        "client_id": "app",
        "operation": "CREATE_TOPICS",
        "validate_only": False,
        "mode": "STRICT",
        "user_tag": "alice",
        "client_tag": "",
        "more_tags": {},
        "callback": None,
        "quota": 5.0,
        "burst": 55.0,
        "max_debt_ms": None,
        "max_request_mutations": None,
        "quota_entity": {"user": "alice"},
        "exempt": False,
        "outcome": "ADMITTED",
        "topics": [{"name": "topic-0", "partitions": 60, "error_code": 0, "error": "NONE", "error_message": None}],
        "controller_throttle_ms": 0,
        "request_throttle_ms": 7,
        "throttle_time_ms": 7,
        "retry_at": 1007,
        "shadow": None,
        "tokens_before": 55.0,
        "tokens": -5.0,
        "apply": True,
        "expires_at": None,
        "repeats": None,
        "observed": None,
        "bucket_before": {"tokens": 55.0, "updated_at": None, "quota": 5.0, "burst": 55.0},
        "withdraws": None,
        "unrecorded": 0,
        "timestamp": 1000,
        "source": {"topic": "mutation-requests", "partition": 0, "offset": 0},
    }


def test_an_invalid_line_is_a_dead_letter_at_its_position(simulate):
    good = at(5, 1)
    lines = [good, b'{"timestamp": 6}', b"\xff", request_json(1), good]
    first, bad, binary, unstamped, last = simulate(lines, exit_code=1)
    assert first["decision_id"] == "mutation-requests-0-0"
    assert (bad["error"], bad["timestamp"]) == ("request_id: missing", 6)
    assert (bad["value"], bad["source"]["offset"]) == ('{"timestamp": 6}', 1)
    assert (binary["value"], binary["timestamp"], binary["source"]["offset"]) == ("/w==", None, 2)
    assert unstamped["error"] == "timestamp: missing"
    assert last["decision_id"] == "mutation-requests-0-4"


def test_blank_lines_are_skipped_and_invalid_ones_are_counted_on_standard_error(run_simulate):
    done = run_simulate([b"", at(5, 1), b"  ", b"{}", at(5, 2), b""], [ALICE])
    assert (done.returncode, done.stderr) == (1, "invalid requests: 1 of 3 lines\n")
    first, bad, last = map(json.loads, done.stdout.splitlines())
    assert (first["decision_id"], last["decision_id"]) == ("mutation-requests-0-1", "mutation-requests-0-4")
    assert bad["source"]["offset"] == 3


def test_a_document_has_the_decisions_and_the_invalid_lines(run_simulate):
    document = json.loads(run_simulate([at(5, 1), b"{}", at(5, 2)], [ALICE], "--output", "json").stdout)
    assert [decision["tokens"] for decision in document["decisions"]] == [54, 52]
    assert [(letter["source"]["offset"], letter["value"]) for letter in document["dead_letters"]] == [(1, "{}")]


def test_a_table_has_a_row_for_each_decision_and_invalid_lines_are_listed_separately(run_simulate):
    lines = [at(0, 60, client_id="app"), b"{}", at(12_000, 1), at(12_000, 1, request_id="another")]
    done = run_simulate(lines, [ALICE], "--output", "table")
    assert [line.split() for line in done.stdout.splitlines()[1:]] == [
        ["1", "1970-01-01T00:00:00.000Z", "alice", "/", "app", "ADMITTED", "-5.0", "0", "s"],
        ["3", "1970-01-01T00:00:12.000Z", "alice", "/", "<none>", "ADMITTED", "54", "0", "s"],
        ["4", "1970-01-01T00:00:12.000Z", "alice", "/", "<none>", "ADMITTED", "53", "0", "s"],
    ]
    assert done.stderr == "line 2: request_id: missing\ninvalid requests: 1 of 4 lines\n"


def test_removing_a_quota_temporarily_forgives_no_debt(simulate):
    """-445 at 0 ms; removed and set again, it has gained 5/s all the time."""
    quotas = [ALICE, ALICE | {"effective_at": 1000, "controller_mutation_rate": None}, ALICE | {"effective_at": 2000}]
    debt, free, again = simulate([at(0, 500), at(1500, 500), at(3000, 1)], quotas)
    assert (debt["tokens"], free["tokens"], again["tokens"], again["outcome"]) == (-445, None, -430, "REJECTED")


@pytest.mark.parametrize(
    ("quotas", "error"),
    [
        ([ALICE | {"controller_mutation_rate": -1}], "quotas.jsonl:1: controller_mutation_rate: "),
        ([None, {"entity": {"user": "alice"}}], "quotas.jsonl:2: controller_mutation_rate: missing"),  # a blank line
    ],
)
def test_an_invalid_quota_is_named_with_its_line(run_simulate, quotas, error):
    done = run_simulate([], quotas)
    assert (done.returncode, done.stdout) == (2, "")
    assert error in done.stderr
    assert done.stderr.count("\n") == 1


def test_clusters_and_callbacks_are_lines_of_the_quotas_too(simulate):
    """A tenant that owns half of the partitions from 1000 on and all from 2000 on; then the eight levels again."""
    name = "quota.callbacks.proportional.PartitionProportionalCallback"
    quotas = [
        {"entity": {"user": None}, "controller_mutation_rate": 100},
        {"callback": {"class": name, "configs": {"minimum.share": "0.1"}}},
        {"cluster": {"topics": {"alice.a": [0], "bob.b": [0]}}, "effective_at": 1000},
        {"cluster": {"topics": {"alice.a": [0]}}, "effective_at": 2000},
        {"callback": None, "effective_at": 3000},
    ]
    requests = [at(when, 1) for when in (500, 1500, 2500, 3500)] + [at(2500, 1, user="bob")]
    answers = simulate(requests, quotas, "--set", f"quota.callback_classes={name}")
    assert [answer["quota"] for answer in answers] == [100, 50, 100, 100, 10]
    assert [answer["callback"] for answer in answers] == [name, name, name, None, name]


def test_a_line_names_its_topic_if_topics_identify_users(simulate):
    """Mallory names alice; a line without a topic belongs to no user; one without a user has its topic's."""
    requests = [
        at(0, 60, topic="mutation-requests.mallory"),
        at(0, 1, topic="mutation-requests.alice"),
        at(0, 1, user="", topic="mutation-requests.alice", request_id="another"),
        at(0, 1),
    ]
    lie, *decided, nobodys = simulate(requests, (ALICE,), "--set", "topics.identity=topic", exit_code=1)
    assert lie["error"] == "user: the topic mutation-requests.mallory belongs to another user (value: 'alice')"
    assert [(decision["user"], decision["tokens"]) for decision in decided] == [("alice", 54), ("alice", 53)]
    assert [decision["source"]["topic"] for decision in decided] == ["mutation-requests.alice"] * 2
    assert nobodys["error"].startswith("user: this topic belongs to no user")


def test_an_empty_client_id_does_not_bypass_a_default(simulate):
    """An absent or empty client-id is a separate client; each has its burst of 55 once."""
    quotas = [{"entity": {"client-id": None}, "controller_mutation_rate": 5}]
    clients = {"a": {}, "b": {"client_id": ""}, "c": {"client_id": "<none>"}, "d": {}}
    requests = [at(0, 60, request_id=name, **client) for name, client in clients.items()]
    answers = simulate(requests, quotas)
    assert [(answer["client_id"], answer["outcome"]) for answer in answers] == [
        ("<none>", "ADMITTED"),
        ("<none>", "REJECTED"),
        ("<none>", "REJECTED"),
        ("<none>", "REJECTED"),
    ]
