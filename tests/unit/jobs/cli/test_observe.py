"""The commands of observe that need neither Kafka nor Spark, as an operator runs them."""

import json

import pytest

from tests.support.programs import run
from tests.support.request_log import created, deleted, fetched

QUOTAS = "quotas:\n- entity: {user: null}\n  controller_mutation_rate: 1\n"
ASSUMED = (
    "topics whose cost is not in the logs, assumed to be 1: 1 to delete topics (observe snapshot saves existing "
    "topics; observe.default_partitions sets the default)"
)
BROKEN = (
    "kafka-request.log: cannot read 1 line with a mutation (530 bytes); the first: a truncated line, or not JSON: "
    "Input data was truncated, in the line '[2026-11-22 17:39:53,000] DEBUG Completed request:"
)


@pytest.fixture
def log(tmp_path):
    lines = [
        created("2026-11-22 17:39:50,000", ("a", 60), correlation_id=1, totalTimeMs=0),
        fetched("2026-11-22 17:39:50,500"),
        created("2026-11-22 17:39:51,000", ("b", 1), errors=[89], throttle_ms=48_000, correlation_id=2, totalTimeMs=0),
        deleted("2026-11-22 17:39:52,000", "old", correlation_id=3, totalTimeMs=0),
        created("2026-11-22 17:39:53,000", ("a", 60), errors=[36], correlation_id=4)[:-40] + b"\n",
    ]
    (tmp_path / "kafka-request.log").write_bytes(b"".join(lines))
    (tmp_path / "quotas.yaml").write_text(QUOTAS)
    return tmp_path


def imported(folder, *options):
    return run("observe", "import", "kafka-request.log", "--output-file", "requests.jsonl", *options, cwd=folder)


def test_the_summary_reports_what_was_found_and_what_was_missing(log):
    done = imported(log, "--set", "observe.time_zone=Europe/Berlin")
    assert (done.returncode, done.stdout) == (0, "")
    *summary, broken, cut, wrote = done.stderr.splitlines()
    assert summary == [
        "2 requests to create topics: 61 mutations",
        "1 request to delete topics: 1 mutation",
        "from 2026-11-22T16:39:50.000Z to 2026-11-22T16:39:52.000Z (times without a zone were read as Europe/Berlin)",
        "rejected by the cluster's own quotas: 1 topic; throttled: 1 request",
        ASSUMED,
    ]
    assert broken.startswith(BROKEN)
    assert cut == "kafka-request.log: 1 line of these cut off: the largest requests are missing"
    assert wrote == "Wrote requests.jsonl; do not size quotas with it, requests are missing"


def test_quotas_are_sized_only_with_requests_that_were_all_read(log):
    (log / "kafka-request.log").write_bytes(fetched("2026-11-22 17:39:50,500"))
    assert imported(log).stderr.splitlines() == ["the logs have no mutations", "Wrote requests.jsonl, without requests"]
    (log / "kafka-request.log").write_bytes(created("2026-11-22 17:39:50", ("a", 60)))
    advice = "Wrote requests.jsonl; size quotas with: mutation-quota recommend --requests requests.jsonl"
    assert imported(log, "--force").stderr.splitlines()[-1] == advice


def test_programs_get_the_summary_as_json_and_the_requests_as_lines(log):
    summary = json.loads(imported(log, "--output", "json").stdout)
    assert summary["mutations_by_operation"] == {"CREATE_TOPICS": 61, "CREATE_PARTITIONS": 0, "DELETE_TOPICS": 1}
    assert summary["logs"]["kafka-request.log"]["invalid_lines"] == 1
    requests = [json.loads(line) for line in (log / "requests.jsonl").read_text().splitlines()]
    assert [request["topics"][0]["name"] for request in requests] == ["a", "b", "old"]
    piped = run("observe", "import", "kafka-request.log", "--output", "json", cwd=log)
    assert piped.stdout == (log / "requests.jsonl").read_text()
    assert json.loads(piped.stderr) == summary


def test_sessions_of_a_role_are_warned_of_until_they_are_mapped(log):
    role = "User:arn:aws:sts::111122223333:assumed-role/orders"
    times = [f"2026-11-22 17:{minute}:00,000" for minute in range(10, 50)]
    lines = [created(time, (time[14:16], 12), principal=f"{role}/{time[14:16]}") for time in times]
    (log / "kafka-request.log").write_bytes(b"".join(lines))
    rule = r"RULE:^arn:aws[^:]*:sts::\d+:assumed-role\/([^\/]+)\/.*$/$1/, DEFAULT"
    for mapping, tenants in ((), 40), (("--set", f"observe.principal_mapping_rules={rule}"), 1):
        done = imported(log, "--force", *mapping)
        sized = run("recommend", "--capacity", "20", "--requests", "requests.jsonl", "-o", "json", cwd=log)
        assert len(json.loads(sized.stdout)["tenants"]) == tenants
        for stderr in done.stderr, sized.stderr:
            assert stderr.count("warning: 40 users differ only after 'arn:aws:") == (tenants == 40)
            assert (rule in stderr) == (tenants == 40)


def test_a_snapshot_gives_the_cost_of_earlier_topics(log):
    (log / "topics.json").write_text('{"at": 0, "partitions": {"old": 12}}')
    summary = json.loads(imported(log, "--snapshot", "topics.json", "--output", "json").stdout)
    assert summary["mutations_by_operation"]["DELETE_TOPICS"] == 12


def test_a_failure_leaves_no_file(log):
    assert imported(log, "quotas.yaml").returncode == 2
    assert not list(log.glob("*requests*"))
    assert imported(log).returncode == 0
