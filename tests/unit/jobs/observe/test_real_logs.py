"""Request logs of real brokers compared with the records of their clients."""

import io
import json
from collections import Counter

import pytest

from jobs.observe.importing import import_logs
from quota.errors import BadInput
from quota.settings.jobs import ObserveSettings
from tests.support.checkout import CHECKOUT

FOLDER = CHECKOUT / "tests" / "data" / "request_logs"
SET_UPS = sorted(path.name for path in FOLDER.iterdir() if path.name != "2.7.2-zookeeper")

BY_THE_CLUSTER = {"AUTOMATIC", "INTERNAL"}
"""Operations that no client asked for."""

TIMED_OUT, REJECTED = 7, 89


def driven(name):
    """Return the records: `requests` are those of clients, `by_cluster` those of the cluster itself."""
    noted = json.loads((FOLDER / name / "driven.json").read_text())
    by_cluster = [request for request in noted["requests"] if request["operation"] in BY_THE_CLUSTER]
    return noted | {
        "requests": [request for request in noted["requests"] if request not in by_cluster],
        "by_cluster": by_cluster,
    }


def imported(name, noted, nodes="*"):
    settings = ObserveSettings(time_zone=noted["time_zone"], default_partitions=noted["default_partitions"])
    out = io.BytesIO()
    logs = sorted((FOLDER / name).glob(f"{nodes}/kafka-request.log*"))
    summary = import_logs(logs, settings, noted["before"], out)
    return summary, [json.loads(line) for line in out.getvalue().splitlines()]


def as_logged(noted, text):
    """Return a name as the broker has logged it: that of 3.3.2 has a file encoding that knows ASCII alone."""
    return text.encode("ascii", "replace").decode() if noted["kafka"] == "3.3.2" else text


def requested(noted):
    """Return the clients' requests and their outcomes: sender, operation, and each topic with its cost and error."""
    counts = Counter()
    for request in noted["requests"]:
        topics = [
            (topic["name"], cost(noted, request, topic), topic["error"])
            for topic in request["topics"]
            if topic["error"] in {0, REJECTED}
        ]
        if topics:
            user = request["principal"].partition(":")[2]
            client_id = as_logged(noted, request["client_id"] or "")
            counts[request["operation"], user, client_id, request["validate_only"], tuple(sorted(topics))] += 1
    return counts


def cost(noted, request, topic):
    """Return the partitions that were added or removed, as another client saw them; or the requested ones."""
    done = topic["error"] == 0 and not request["validate_only"]
    wanted = topic["asked"] or len(topic["assignments"] or ()) or noted["default_partitions"]
    match request["operation"]:
        case "CREATE_TOPICS":
            return topic["after"] if done else wanted
        case "CREATE_PARTITIONS":
            return (topic["after"] if done else wanted) - topic["before"]
        case "DELETE_TOPICS":
            return topic["before"]


def observed(requests):
    counts = Counter()
    for request in requests:
        codes = request["observed"]["error_codes"]
        topics = sorted(
            (topic["name"], topic["partitions"], code) for topic, code in zip(request["topics"], codes, strict=True)
        )
        counts[
            request["operation"], request["user"], request["client_id"], request["validate_only"], tuple(topics)
        ] += 1
    return counts


@pytest.mark.parametrize("name", SET_UPS)
def test_every_request_recorded_by_clients_is_found_once_with_its_cost_and_answer(name):
    noted = driven(name)
    summary, requests = imported(name, noted)
    expected, logged = requested(noted), observed(requests)
    timed_out = {
        topic["name"] for request in noted["requests"] for topic in request["topics"] if topic["error"] == TIMED_OUT
    }
    missing = {key for key in expected - logged if not timed_out & mates(noted, key)}
    assert not missing
    # What clients have not noted: their own retries, what the cluster has made itself, and what timed out.
    unnoted = [request for request in noted["requests"] if request["retries"]] + noted["by_cluster"]
    others = {topic["name"] for request in unnoted for topic in request["topics"]}
    assert all({topic for topic, _, _ in key[-1]} & (others | timed_out) for key in logged - expected)
    assert not any(summary.assumed_topics_by_operation.values())
    assert not any(log.invalid_lines for log in summary.logs.values())


def mates(noted, key):
    """Return the names of the topics that were in one request with those of a key, also of those that failed."""
    names = {topic for topic, _, _ in key[-1]}
    requests = ({topic["name"] for topic in request["topics"]} for request in noted["requests"])
    return set().union(*(topics for topics in requests if names <= topics))


@pytest.mark.parametrize("name", ["3.9.2-kraft", "4.2.1-kraft", "4.2.1-secured"])
def test_the_controllers_log_alone_gives_the_same(name):
    noted = driven(name)
    _, of_all = imported(name, noted)
    _, of_controller = imported(name, noted, "controller-*")
    assert observed(of_controller) == observed(of_all)


def test_a_log_from_before_kafka_2_8_is_rejected():
    with pytest.raises(BadInput, match=r"kafka-request\.log\S*: a request log of Kafka before 2\.8, which is not JSON"):
        imported("2.7.2-zookeeper", driven("2.7.2-zookeeper"))
