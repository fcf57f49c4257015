"""Lines in the layouts of log4j2, as container runtimes and shippers wrap them, and times by the calendar."""

import json
import re
from datetime import UTC, datetime
from itertools import product
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.errors import BadRecord
from quota.observation.layouts import CutOff, LogTime, join
from quota.observation.request_log import mutation_lines, read_line
from tests.support.request_log import created, fetched
from tests.support.wrapped_logs import AT, AT_MS, LAYOUTS, WRAPPERS

STORM = [(f"storm-{number}", 12) for number in range(400)]  # 75 kB


def message(*topics, **fields):
    """Return the message of a creation, without the head and the tail of Kafka's layout."""
    line = created(AT, *topics, **fields).decode()
    return line[line.index("Completed request:") : line.rindex("} (") + 1]


def read(block):
    """Return the requests of a log."""
    lines, size = join(block)
    assert size == len(block)
    requests = [read_line(lines[begin:end], LogTime(ZoneInfo("UTC"))) for begin, end in mutation_lines(lines)]
    return [request for request in requests if request]


THAT_CUT = ["docker json-file", "cri", "fluent bit", "fluent bit's file", "fluentd", "journalctl -o json"]
PRINTED = "JsonLayout that is not compact"
ONE_LINE = [name for name in LAYOUTS if name != PRINTED]


def log(*lines):
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.mark.parametrize(("layout", "wrapper"), [*product(ONE_LINE, WRAPPERS), (PRINTED, "file")])
def test_each_layout_in_each_wrapper_gives_the_same_request(layout, wrapper):
    (request,) = read(log(*WRAPPERS[wrapper](LAYOUTS[layout](message(("a", 3), ("b", 4), client_id='"c"\\ Ä')))))
    assert [(topic.name, topic.count, topic.error_code) for topic in request.topics] == [("a", 3, 0), ("b", 4, 0)]
    assert (request.principal, request.client_id) == ("User:alice", '"c"\\ Ä')
    assert (request.received_at, request.completed_at) == (AT_MS - 50, AT_MS)


WAYS = st.tuples(
    st.sampled_from(ONE_LINE),
    st.sampled_from([name for name in WRAPPERS if name != "journalctl -o json with a color"]),
    st.sampled_from([*WRAPPERS]),
)
TOPICS = st.lists(st.tuples(st.text(min_size=1), st.integers(1, 99)), min_size=1, max_size=3, unique_by=lambda t: t[0])


@given(way=WAYS, name=st.text(), topics=TOPICS, repeats=st.sampled_from([1, 200]))
def test_any_request_wrapped_twice_is_the_request_of_the_plain_line(way, name, topics, repeats):
    layout, inner, outer = way
    topics = [(f"{topic}-{number}", count) for topic, count in topics for number in range(repeats)]
    fields = {"client_id": name, "principal": f"User:{name}"}
    lines = WRAPPERS[inner](LAYOUTS[layout](message(*topics, **fields)))
    wrapped = lines if len(lines) > 1 else WRAPPERS[outer](*lines)
    assert read(log(*wrapped)) == read(created(AT, *topics, **fields))


@pytest.mark.parametrize("wrapper", THAT_CUT)
def test_pieces_of_a_long_line_are_joined_also_between_lines_of_another_stream(wrapper):
    pieces = WRAPPERS[wrapper](LAYOUTS["kafka"](message(*STORM)))
    other = [line.replace("stdout", "stderr").replace('"12"', '"13"') for line in pieces]
    lines = [line for pair in zip(pieces, other, strict=True) for line in pair]
    assert len(pieces) > 1
    assert [sum(topic.count for topic in request.topics) for request in read(log(*lines))] == [4800, 4800]


@pytest.mark.parametrize("wrapper", THAT_CUT)
def test_a_block_ends_before_the_first_piece_of_a_line_whose_last_one_is_missing(wrapper):
    before, storm = (WRAPPERS[wrapper](LAYOUTS["kafka"](message(*topics))) for topics in ([("a", 3)], STORM))
    whole, cut = log(*before), log(*storm[:-1])
    assert join(whole + cut) == (whole, len(whole))
    assert join(cut) == (b"", 0)
    lines, size = join(cut, at_end=True)
    assert (size, lines.count(b"\n")) == (len(cut), 1)
    with pytest.raises(CutOff, match="a truncated line"):
        read_line(lines, LogTime(ZoneInfo("UTC")))


def test_json_over_several_lines_is_whole_with_its_last_one():
    block = log(*[LAYOUTS[PRINTED](message((name, 3))) for name in ("a", "b")])
    assert [request.topics[0].name for request in read(block)] == ["a", "b"]
    first = block[: len(block) // 2]
    for size in range(len(first) + 1, len(block) - 1, 40):
        assert join(block[:size])[1] == len(first)
    assert len(read(b"[\n" + first + b", " + first + b"\n]\n")) == 2
    assert join(b"{}\n\tat a.b\n") == (b"{}\n\tat a.b\n", 11)


def test_a_stream_that_ends_with_a_piece_does_not_hold_back_the_others_forever(monkeypatch):
    monkeypatch.setattr("quota.observation.layouts._LONGEST_BYTES", 10_000)
    stuck = "2026-11-22T17:39:55.315Z stderr P beginning"
    whole = [f"2026-11-22T17:39:55.315Z stdout F {LAYOUTS['kafka'](message((f't{n}', 1)))}" for n in range(30)]
    assert join(log(stuck, *whole[:3])) == (b"", 0)
    assert len(read(log(stuck, *whole))) == 30


def test_lines_of_other_layouts_are_not_taken_for_pieces():
    records = [
        WRAPPERS["fluent bit"]("a")[0],
        WRAPPERS["docker json-file"]("b")[0],
        '{"stream":"x","log":"c"}',
        "d P e",
    ]
    block = log(*records) + fetched(AT)
    assert join(block) == (block, len(block))


def test_a_message_that_journalctl_left_out_is_an_error_that_says_how_to_export_it():
    block = b'{"__REALTIME_TIMESTAMP":"1795369195315000","MESSAGE":null}\n'
    (place,) = mutation_lines(block)
    with pytest.raises(CutOff, match=r"journalctl has left out a message of more than 4,096 bytes: .* --all"):
        read_line(block[slice(*place)], LogTime(ZoneInfo("UTC")))


@pytest.mark.parametrize("between", ["", "\0"])
def test_several_messages_in_one_line_are_an_error_that_says_what_to_set(between):
    line = between.join(LAYOUTS["JsonLayout"](message((name, 1))) for name in ("a", "b"))
    with pytest.raises(BadRecord, match=r"several messages in one line: .*eventEol"):
        read_line(line.encode(), LogTime(ZoneInfo("UTC")))


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("field", [r'(?<="correlationId":)\d+', r'(?<="connection":")[^"]+'])
def test_several_messages_in_one_record_are_an_error_and_not_one_message(indent, field):
    """As an API returns them, or a collector that writes batches: only the first one would be read."""
    texts = [message(("a", 1)), re.sub(field, "98", message(("a", 1)))]
    assert texts[0] != texts[1]
    events = [{"timestamp": 1795369195316, "message": text} for text in texts]
    lines = join(json.dumps({"events": events}, indent=indent).encode() + b"\n")[0]
    (place,) = mutation_lines(lines)
    with pytest.raises(BadRecord, match="several messages in one record of JSON"):
        read_line(lines[slice(*place)], LogTime(ZoneInfo("UTC")))


def test_a_copy_of_the_message_in_the_same_record_is_ignored():
    text = json.dumps(message(("a", 1)))
    assert len(read(log(f'{{"@timestamp":"2026-11-22T17:39:55.315Z","log":{text},"message":{text}}}'))) == 1


@pytest.mark.parametrize(
    ("wrapper", "completed_at"),
    [
        ('{"log":%s,"stream":"stdout","time":"2026-11-22T17:39:56.001Z"}', 1_795_369_196_001),
        ('{"date":1795369210.5,"time":"2026-11-22T17:39:56.001Z","stream":"stdout","log":%s}', 1_795_369_196_001),
        ('{"date":1795369210.5,"stream":"stdout","log":%s}', 1_795_369_195_000),
    ],
    ids=["Docker", "Fluent Bit, with the time of CRI", "Fluent Bit"],
)
def test_the_time_of_a_runtime_is_more_exact_than_whole_seconds_and_that_of_a_shipper_is_not(wrapper, completed_at):
    line = f"2026-11-22 17:39:55 DEBUG [a] logger:280 - {message(('a', 1), totalTimeMs=0)}\n"
    assert [request.completed_at for request in read(log(wrapper % json.dumps(line)))] == [completed_at]


def test_whole_seconds_keep_the_order_of_the_log():
    lines = [f"2026-11-22 17:39:55 DEBUG [a] logger:280 - {message(('a', 1), totalTimeMs=ms)}" for ms in (3, 900, 1800)]
    requests = read(log(*lines))
    assert [request.received_at - 1_795_369_195_000 for request in requests] == [0, 0, -1000]
    assert [request.completed_at - request.received_at for request in requests] == [3, 900, 1800]


def ms(text):
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("head", "zone", "utc"),
    [
        (b"[2026-11-22 17:39:55,315] DEBUG ", "Europe/Berlin", "2026-11-22T16:39:55.315"),
        (b"[2026-07-22 17:39:55,315] DEBUG ", "Europe/Berlin", "2026-07-22T15:39:55.315"),
        (b"2026-11-22T17:39:55.315123Z stdout F ", "Europe/Berlin", "2026-11-22T17:39:55.315"),
        (b"2026-11-22T17:39:55.315+0530 ", "UTC", "2026-11-22T12:09:55.315"),
        (b"2026-11-22 17:39:55.315 -03:00 ", "UTC", "2026-11-22T20:39:55.315"),
        (b"2026-11-22T17:39:55.3Z ", "Europe/Berlin", "2026-11-22T17:39:55.300"),
        (b"[2026-11-22 17:39:55,315 UTC] ", "Europe/Berlin", "2026-11-22T17:39:55.315"),
        (b"[2026-11-22 17:39:55,315 GMT+01:00] ", "UTC", "2026-11-22T16:39:55.315"),
        (b"[2026-11-22 17:39:55,315 CET] ", "UTC", "2026-11-22T16:39:55.315"),
        (b"[2026-11-22 17:39:55:315 Europe/Berlin] ", "UTC", "2026-11-22T16:39:55.315"),
        (b"2026-11-22 17:39:55,315 EST DEBUG ", "America/New_York", "2026-11-22T22:39:55.315"),
        (b"2026-11-22 17:39:55,315 CST DEBUG ", "Asia/Shanghai", "2026-11-22T09:39:55.315"),
        (b"[2026-10-25 02:10:00,000 CET] ", "Europe/Berlin", "2026-10-25T01:10:00"),  # an hour that occurs twice
        (b"[2026-10-25 02:10:00,000 CEST] ", "Europe/Berlin", "2026-10-25T00:10:00"),
    ],
)
def test_a_time_is_read_in_the_zone_that_it_names_or_else_in_that_of_the_log(head, zone, utc):
    assert LogTime(ZoneInfo(zone)).read(head) == (ms(utc), 1)


@pytest.mark.parametrize(
    "head",
    [
        b"20261122T173955,315 ",  # ISO8601_BASIC
        b"20261122173955315 ",  # COMPACT
        b"22 Nov 2026 17:39:55,315 ",  # DATE
        b"1795369195315 ",  # UNIX_MILLIS
        b"1795369195315000000",
        b"1795369195.315",
        b"2026/11/22 17:39:55.315 ",
        b"\x1b[32m2026-11-22T17:39:55,315\x1b[m DEBUG ",
    ],
)
def test_the_formats_of_log4j2_and_times_of_the_epoch_are_read(head):
    assert LogTime(ZoneInfo("UTC")).read(head) == (1_795_369_195_315, 1)


@pytest.mark.parametrize("head", [b"2026-11-22 17:39:55 DEBUG [a-0] ", b"22/Nov/2026:17:39:55 +0000 ", b"1795369195 "])
def test_a_time_without_milliseconds_has_the_resolution_of_a_second(head):
    assert LogTime(ZoneInfo("UTC")).read(head) == (1_795_369_195_000, 1000)


@pytest.mark.parametrize(
    ("head", "utc"),
    [
        (b"2026-11-22T17:39:55.316Z stdout F 2026-11-22 17:39:55 DEBUG ", "2026-11-22T17:39:55.316"),
        (b"2026-11-22T17:39:55+00:00 host kafka[12]: [2026-11-22 17:39:55,315] ", "2026-11-22T17:39:55.315"),
        (b"2026-11-22 17:39:57,100 kafka-1 | [2026-11-22 17:39:55,315] ", "2026-11-22T17:39:55.315"),
    ],
)
def test_of_several_times_the_most_exact_one_counts_and_of_equal_ones_the_last(head, utc):
    assert LogTime(ZoneInfo("UTC")).read(head) == (ms(utc), 1)


@pytest.mark.parametrize(
    ("head", "zone"),
    [
        (b"17:39:55,315 EST DEBUG ", "EST"),
        (b"17:39:55,315 XYZ] DEBUG ", "XYZ"),
        (b"17:39:55,315 Central European Time] DEBUG ", "Central European Time"),
        (b"05:39:55 PM DEBUG ", "PM"),
    ],
)
def test_a_zone_that_is_not_clear_is_an_error_that_says_what_to_set(head, zone):
    with pytest.raises(BadRecord, match=f"^{zone} is the name of several time zones, or .*: set observe.time_zone"):
        LogTime(ZoneInfo("UTC")).read(b"[2026-11-22 " + head)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"[2026-13-22 17:39:55,315]",
        b"[2026-11-22 17:39]",
        b"17:39:55,315 DEBUG ",  # ABSOLUTE
        b"Nov 22 17:39:55 host kafka[12]: ",
        b"[2026-02-30 17:39:55,315]",
    ],
)
def test_a_line_without_a_time_has_none(head):
    time = LogTime(ZoneInfo("UTC"))
    assert [time.read(line) for line in (head, b"[2026-11-22 17:39:55,315]")] == [None, (AT_MS, 1)]


def test_the_repeated_hour_in_autumn_continues_where_the_log_steps_back():
    time = LogTime(ZoneInfo("Europe/Berlin"))  # at 03:00 on 2026-10-25 clocks are set back to 02:00
    read = [time.read(f"[2026-10-25 {text}]".encode())[0] for text in ("02:10:00,000", "02:59:59,000", "02:00:01,000")]
    assert read == [ms("2026-10-25T00:10"), ms("2026-10-25T00:59:59"), ms("2026-10-25T01:00:01")]
    assert time.read(b"[2026-10-25 02:30:00,000]") == (ms("2026-10-25T01:30"), 1)
    assert time.read(b"[2026-10-25 03:00:00,000]") == (ms("2026-10-25T02:00"), 1)


def test_lines_slightly_out_of_order_are_not_mistaken_for_a_clock_set_back():
    time = LogTime(ZoneInfo("Europe/Berlin"))
    assert time.read(b"[2026-10-25 02:10:05,000]") == (ms("2026-10-25T00:10:05"), 1)
    assert time.read(b"[2026-10-25 02:10:04,000]") == (ms("2026-10-25T00:10:04"), 1)
