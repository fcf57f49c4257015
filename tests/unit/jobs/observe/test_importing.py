"""Request logs as files of requests."""

import bz2
import gzip
import io
import json
import lzma
import os
import sys
import threading
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest

from jobs.observe import scanning
from jobs.observe.importing import import_logs
from quota.errors import BadInput
from quota.settings.jobs import ObserveSettings
from tests.support.checkout import CHECKOUT
from tests.support.full_disk import fill_disk
from tests.support.request_log import created, deleted, fetched
from tests.support.wrapped_logs import AT, LAYOUTS, WRAPPERS


def imported(*files, snapshot=(), **settings):
    out = io.BytesIO()
    summary = import_logs(files, ObserveSettings(**settings), dict(snapshot), out)
    return summary, [json.loads(line) for line in out.getvalue().splitlines()]


def write(folder, name, *lines):
    file = folder / name
    file.write_bytes(b"".join(lines))
    return file


def at(second, ms=0):
    return f"2026-11-22 17:39:{second:02},{ms:03}"


def names(requests):
    return [topic["name"] for request in requests for topic in request["topics"]]


def test_a_full_disk_of_temporary_files_is_no_error_of_a_log_in_a_pipe(tmp_path, monkeypatch):
    fill_disk(monkeypatch)
    monkeypatch.setattr("sys.stdin", Mock(buffer=io.BytesIO(b"a line")))
    with pytest.raises(OSError, match="No space left") as raised:
        scanning.saved(Path("-"), tmp_path)
    assert raised.value.filename == f"{tmp_path}/0.piped"


def test_requests_of_several_logs_come_in_the_order_in_which_they_were_received(tmp_path):
    one = write(tmp_path, "one", created(at(1), ("a", 1)), created(at(9), ("c", 1), totalTimeMs=7000.0))
    two = write(tmp_path, "two", created(at(8), ("d", 1)), fetched(at(8)), created(at(3), ("b", 1)))
    summary, requests = imported(one, two)
    assert names(requests) == ["a", "c", "b", "d"]  # c came at 2 s and took 7
    assert requests[0]["timestamp"] == requests[0]["observed"]["at"] == 1_795_369_140_950
    assert summary.first_at == 1_795_369_140_950
    assert [log.requests for log in summary.logs.values()] == [2, 2]


def test_a_forwarded_request_counts_once_and_one_that_only_the_controller_has_counts_too(tmp_path):
    broker = write(tmp_path, "broker", created(at(1), ("a", 3)), created(at(5), ("b", 3), correlation_id=6))
    controller = write(
        tmp_path,
        "controller",
        created(at(4, 500), ("a", 3), isForwarded=True, totalTimeMs=3.0, connection="broker-1"),
        created(at(8, 500), ("b", 3), isForwarded=True, totalTimeMs=3.0, connection="broker-1", correlation_id=6),
        created(at(9), ("c", 3), isForwarded=True, correlation_id=7),
    )
    summary, requests = imported(broker, controller)
    assert names(requests) == ["a", "b", "c"]
    assert summary.forwarded == 2
    (clock,) = summary.clock_differences_ms
    assert (clock.log, clock.other, clock.ahead_ms) == (str(controller), str(broker), 3500)


def test_the_same_request_at_another_time_is_another_one(tmp_path):
    """An hourly job would do this, on a broker of which only the latest log is left."""
    hours = [f"2026-11-22 {hour:02}:00:00,000" for hour in range(8, 15)]
    broker = write(tmp_path, "broker", created(hours[-1], ("a", 3), errors=[36]), created(hours[-1], ("b", 1)))
    forwarded = [created(hour, ("b", 1), isForwarded=True, connection=hour) for hour in hours]
    summary, requests = imported(broker, write(tmp_path, "controller", *forwarded))
    assert names(requests) == ["b"] * 7
    assert summary.forwarded == 1


@pytest.mark.parametrize("ahead_ms", [0, 700], ids=["one clock", "clocks differ"])
@pytest.mark.parametrize("given", [(), (0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("lost", [0, 6])
def test_requests_that_look_alike_count_each_whichever_logs_are_given(tmp_path, given, lost, ahead_ms, copies):
    """A job that starts anew has the same client-id and the same correlation ids each time, at any broker.

    The controller's log of its first runs is lost.
    """
    controller, brokers = [], [[], [], []]
    for run in range(12):
        to = brokers[run % 3]
        for change, second in ((created, 0), (deleted, 2)):
            topic = ("ci", 12) if change is created else "ci"
            moments = [(4 * run + second) * 1000 + ms for ms in (100, 110 + ahead_ms)]
            direct, forwarded = (at(*divmod(moment, 1000)) for moment in moments)
            to.append(change(direct, topic, connection=f"client-{run}"))
            fields = {"isForwarded": True, "connection": f"broker-{run}", "totalTimeMs": 20.0}
            controller += [change(forwarded, topic, **fields)] if run >= lost else []
    logs = [write(tmp_path, f"controller.{copy}", *controller) for copy in range(copies)]
    logs += [write(tmp_path, f"broker-{broker}.{copy}", *brokers[broker]) for broker in given for copy in range(copies)]
    summary, _ = imported(*logs)
    runs = sum(run >= lost or run % 3 in given for run in range(12))
    assert summary.requests_by_operation == {"CREATE_TOPICS": runs, "CREATE_PARTITIONS": 0, "DELETE_TOPICS": runs}
    assert summary.mutations_by_operation["CREATE_TOPICS"] == 12 * runs
    assert summary.forwarded == 2 * sum(run >= lost and run % 3 in given for run in range(12))


def test_of_requests_that_look_alike_the_nearest_one_in_time_is_the_brokers(tmp_path):
    broker = write(tmp_path, "broker", *(created(at(second), ("a", 3), connection=f"{second}") for second in (20, 50)))
    seconds = (0, 10, 19, 30, 51)
    forwarded = [created(at(second), ("a", 3), isForwarded=True, connection=f"{second}") for second in seconds]
    _, requests = imported(broker, write(tmp_path, "controller", *forwarded))
    assert [request["timestamp"] // 1000 % 60 for request in requests] == [59, 9, 19, 29, 49]


def test_a_file_that_is_named_twice_is_read_once(tmp_path):
    log = write(tmp_path, "log", created(at(1), ("a", 3)))
    summary, requests = imported(log, tmp_path / "." / "log")
    assert (names(requests), summary.copies, len(summary.logs)) == (["a"], 0, 1)


def test_a_client_cannot_make_a_log_look_like_an_old_one(tmp_path):
    log = write(tmp_path, "log", created(at(1), ("a", 3), client_id="Completed request:RequestHeader("))
    assert names(imported(log)[1]) == ["a"]


def test_a_line_that_is_there_twice_counts_once_also_among_others_of_the_same_time(tmp_path):
    lines = [created(at(1), ("a", 3)), created(at(1), ("b", 3), correlation_id=6)]
    lines.append(created(at(2), ("a", 3), errors=[36], correlation_id=7))
    log = write(tmp_path, "log", *lines, created(at(3), ("c", 1)))
    copy = tmp_path / "log.1.gz"
    copy.write_bytes(gzip.compress(b"".join(lines)))
    summary, requests = imported(log, copy)
    assert names(requests) == ["a", "b", "c"]
    assert summary.copies == 3


@pytest.mark.parametrize(
    "compress",
    [
        bytes,
        gzip.compress,
        bz2.compress,
        lzma.compress,
        lambda data: pa.compress(data, codec="zstd", asbytes=True),
        lambda data: gzip.compress(data[:700]) + gzip.compress(data[700:]),  # as a rotation may append
    ],
)
def test_compressed_logs_may_have_any_names(tmp_path, compress):
    lines = [line for number in range(50) for line in (fetched(at(1)), created(at(number), (f"t-{number}", 1)))]
    log = tmp_path / "kafka-request.log"
    log.write_bytes(compress(b"".join(lines)))
    _, requests = imported(log)
    assert names(requests) == [f"t-{number}" for number in range(50)]


def test_a_compression_that_the_installation_cannot_read_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    log = write(tmp_path, "log", pa.compress(created(at(1), ("a", 1)), codec="zstd", asbytes=True))
    with pytest.raises(BadInput, match=r"log: to read zstd, install pyarrow, or uncompress the file$"):
        imported(log)


@pytest.mark.parametrize("segment_bytes", [None, 701, 1_000_000], ids=["of whole lines", "cut lines", "one"])
def test_requests_of_the_same_time_keep_the_order_of_the_log(tmp_path, monkeypatch, segment_bytes):
    """A deletion is costed by the creation before it, which came in the same millisecond, or second.

    Processes read segments of the log: no line is lost or duplicated where they end.
    """
    monkeypatch.setattr(scanning, "_BLOCK_BYTES", 1000)
    pairs = [
        (
            created(at(9), (f"t-{n}", 100), correlation_id=2 * n, totalTimeMs=0.4),
            deleted(at(9), f"t-{n}", correlation_id=2 * n + 1, totalTimeMs=0.2),
        )
        for n in range(20)
    ]
    monkeypatch.setattr(scanning, "SEGMENT_BYTES", segment_bytes or len(b"".join(pairs[10])))
    rotated = write(tmp_path, "log.1", created(at(8), ("first", 1)), *[line for pair in pairs[:10] for line in pair])
    log = write(tmp_path, "log", *[line for pair in pairs[10:] for line in pair])
    summary, requests = imported(log, rotated)
    assert names(requests) == ["first", *[f"t-{n}" for n in range(20) for _ in ("created", "deleted")]]
    assert summary.mutations_by_operation == {"CREATE_TOPICS": 2001, "CREATE_PARTITIONS": 0, "DELETE_TOPICS": 2000}
    assert (summary.assumed_topics_by_operation["DELETE_TOPICS"], summary.copies) == (0, 0)


@pytest.mark.parametrize("wrapper", ["docker json-file", "cri", "fluent bit"])
@pytest.mark.parametrize("block_bytes", [64, 20_000, 1_000_000])
def test_a_line_that_was_cut_into_pieces_is_joined_wherever_blocks_end(tmp_path, monkeypatch, wrapper, block_bytes):
    monkeypatch.setattr(scanning, "_BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(scanning, "SEGMENT_BYTES", 10_000)
    lines = [created(AT, (f"t-{n}", 3), correlation_id=n) for n in range(5)]
    storm = created(AT, *[(f"storm-{n}", 12) for n in range(400)], correlation_id=99)
    wrapped = [f"{piece}\n".encode() for line in [*lines, storm] for piece in WRAPPERS[wrapper](line.decode()[:-1])]
    summary, _ = imported(write(tmp_path, "log", *wrapped))
    assert summary.mutations_by_operation["CREATE_TOPICS"] == 4815


@pytest.mark.parametrize("wrapper", ["docker json-file", "cri", "nothing"])
def test_the_rest_of_a_line_at_the_beginning_of_a_file_is_counted(tmp_path, wrapper):
    """A runtime rotates between the pieces of a line; the rest of another request than a mutation is none."""
    storm = created(AT, *[(f"storm-{n}", 12) for n in range(400)]).decode()[:-1]
    whole = [created(AT, ("a", 1)).decode()[:-1]]
    if wrapper == "nothing":
        rests, others = [storm[20_000:]], [fetched(AT).decode()[-200:-1], *whole]
    else:
        rests, others = WRAPPERS[wrapper](storm)[1:], [line for message in whole for line in WRAPPERS[wrapper](message)]
    rest = "".join(f"{line}\n" for line in rests).encode()
    others = [f"{line}\n".encode() for line in others]
    (log,) = imported(write(tmp_path, "log", rest, *others[-1:]))[0].logs.values()
    assert (log.requests, log.invalid_lines, log.cut_lines) == (1, 1, 1)
    assert len(rest) * 0.9 < log.invalid_bytes <= len(rest)
    assert log.first_invalid == "the beginning of the first line is missing; it may be in the file before"
    (log,) = imported(write(tmp_path, "whole", *others))[0].logs.values()
    assert (log.requests, log.invalid_lines, log.first_invalid) == (1, 0, None)


def test_a_pipe_is_read_once(tmp_path):
    pipe, lines = tmp_path / "pipe", gzip.compress(created(at(1), ("a", 3)) + created(at(2), ("b", 3)))
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[lines])
    writer.start()
    summary, requests = imported(pipe)
    writer.join()
    assert names(requests) == ["a", "b"]
    assert list(summary.logs) == [str(pipe)]


def test_a_log_may_come_from_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(created(at(1), ("a", 3)))))
    summary, requests = imported(Path("-"))
    assert (names(requests), list(summary.logs)) == (["a"], ["-"])


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"[2026-11-22 17:39:55,315] INFO started (kafka.server.KafkaServer)\n", "log: not a request log, no line"),
        (b"\0\1\2" * 1000, "log: not a request log"),
        (gzip.compress(b"x" * 100)[:20], "log: "),
        (gzip.compress(b"x" * 100)[:10] + b"\xff" * 100, "log: Error -3 while decompressing data"),
        (
            created("17:39:55,315", ("a", 1)) * 3,
            r"none of 3 lines .*: expected a date .*, in the line '\[17:39:55,315\] DEBUG.* pattern \[%d\] %p",
        ),
        (created(at(1), ("a", 1))[:300], "log: none of 1 line with a mutation .* a truncated line"),
        (LAYOUTS["EcsLayout.json"]('Completed request:{"a":"CREATE_TOPICS"').encode(), "none of 1 line"),
    ],
    ids=["another log", "no log", "cut off", "damaged", "no date", "cut line", "cut message"],
)
def test_a_file_that_is_not_a_request_log_is_rejected(tmp_path, content, error):
    with pytest.raises(BadInput, match=error):
        imported(write(tmp_path, "log", content))


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


def imported_real(name, noted, nodes="*"):
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
    summary, requests = imported_real(name, noted)
    expected, logged = requested(noted), observed(requests)
    timed_out = {
        topic["name"] for request in noted["requests"] for topic in request["topics"] if topic["error"] == TIMED_OUT
    }
    assert len(expected) > 10
    assert [key for key in expected - logged if not timed_out & mates(noted, key)] == []
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
    _, of_all = imported_real(name, noted)
    _, of_controller = imported_real(name, noted, "controller-*")
    assert observed(of_controller) == observed(of_all)


def test_a_log_from_before_kafka_2_8_is_rejected():
    with pytest.raises(BadInput, match=r"kafka-request\.log\S*: a request log of Kafka before 2\.8, which is not JSON"):
        imported_real("2.7.2-zookeeper", driven("2.7.2-zookeeper"))
