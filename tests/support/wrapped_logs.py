"""Lines of request logs as layouts write them, and as container runtimes and shippers wrap and cut them.

Each layout has a message and its time, each wrapper a line of a layout and that time: 2026-11-22 17:39:55.315 UTC.
"""

import json

AT = "2026-11-22 17:39:55,315"
AT_MS = 1_795_369_195_315
_ISO, _EPOCH = "2026-11-22T17:39:55.315Z", "1795369195.315"
_THREAD, _LOGGER = "data-plane-kafka-request-handler-0", "kafka.request.logger"
_PIECE = 16_384


def _json(**fields):
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


LAYOUTS = {
    "kafka": lambda text: f"[{AT}] DEBUG {text} ({_LOGGER})",
    "iso8601_basic": lambda text: f"20261122T173955,315 DEBUG [{_THREAD}] {text}",
    "date": lambda text: f"22 Nov 2026 17:39:55,315 DEBUG {text} ({_LOGGER})",
    "unix_millis": lambda text: f"{AT_MS} DEBUG {text}",
    "zone": lambda text: f"[2026-11-22 18:39:55,315 CET] DEBUG {text} ({_LOGGER})",
    "strimzi with ms": lambda text: f"2026-11-22 17:39:55,315 DEBUG [{_THREAD}] logger:280 - {text}",
    "JsonLayout": lambda text: _json(
        instant={"epochSecond": 1795369195, "nanoOfSecond": 315000000},
        thread=_THREAD,
        level="DEBUG",
        loggerName=_LOGGER,
        message=text,
        endOfBatch=False,
        loggerFqcn="org.apache.logging.slf4j.Log4jLogger",
        threadId=57,
        threadPriority=5,
    ),
    "JsonLayout with timeMillis": lambda text: _json(timeMillis=AT_MS, thread="a", level="DEBUG", message=text),
    "JsonLayout with spaces": lambda text: json.dumps({"timeMillis": AT_MS, "message": text}),
    "JsonLayout that is not compact": lambda text: json.dumps(
        {"instant": {"epochSecond": 1795369195, "nanoOfSecond": 315000000}, "level": "DEBUG", "message": text}, indent=2
    ),
    "EcsLayout.json": lambda text: _json(
        **{"@timestamp": _ISO, "log.level": "DEBUG"},
        message=text,
        **{"process.thread.name": _THREAD, "log.logger": _LOGGER},
    ),
    "ecs-logging-java": lambda text: _json(
        **{"@timestamp": _ISO, "log.level": "DEBUG"},
        message=text,
        **{"ecs.version": "1.2.0", "service.name": "kafka", "event.dataset": "kafka"},
    ),
    "GelfLayout.json": lambda text: (
        f'{{"version":"1.1","host":"kafka-0","short_message":{json.dumps(text)},'
        f'"timestamp":{_EPOCH}000000,"level":7,"_logger":"{_LOGGER}","_thread":"{_THREAD}"}}'
    ),
    "LogstashJsonEventLayoutV1.json": lambda text: _json(
        **{"@version": 1},
        source_host="kafka-0",
        message=text,
        thread_name=_THREAD,
        **{"@timestamp": "2026-11-22T17:39:55.315+0000"},
        level="DEBUG",
        logger_name=_LOGGER,
    ),
    "GcpLayout.json": lambda text: _json(
        timestampSeconds=1795369195, timestampNanos=315000000, severity="DEBUG", message=text, _logger=_LOGGER
    ),
    "GcpLayout.json before 2.25": lambda text: _json(timestamp=_ISO, severity="DEBUG", message=text),
}


def _cut(line):
    pieces = [line[at : at + _PIECE] for at in range(0, len(line), _PIECE)]
    return [*zip(pieces, ["P"] * (len(pieces) - 1) + ["F"], strict=True)]


def _docker(line):
    pieces = [piece if tag == "P" else piece + "\n" for piece, tag in _cut(line)]
    return [_json(log=piece, stream="stdout", time="2026-11-22T17:39:55.315Z") for piece in pieces]


def _fluent_bit(line):
    pod = {"pod_name": "kafka-0", "namespace_name": "kafka", "container_name": "kafka"}
    return [
        f'{{"date":1795369201.5,"time":"{_ISO}","stream":"stdout","_p":"{tag}","log":{json.dumps(piece)},'
        f'"kubernetes":{_json(**pod)}}}'
        for piece, tag in _cut(line)
    ]


def _fluent_bit_file(line):
    records = [_json(stream="stdout", _p=tag, log=piece) for piece, tag in _cut(line)]
    return [f"kafka.0: [{_EPOCH}000000, {record}]" for record in records]


def _fluentd(line):
    records = [
        _json(stream="stdout", logtag=tag, message=piece, docker={"container_id": "ab"}) for piece, tag in _cut(line)
    ]
    return [f"2026-11-22T17:39:55+00:00\tkubernetes.kafka-0\t{record}" for record in records]


def _journald(line):
    pieces = [line[at : at + 49_152] for at in range(0, len(line), 49_152)]
    breaks = [{"_LINE_BREAK": "line-max"}] * (len(pieces) - 1) + [{}]
    return [
        json.dumps({"__REALTIME_TIMESTAMP": "1795369195315000", "_PID": "12", **end, "MESSAGE": piece})
        for piece, end in zip(pieces, breaks, strict=True)
    ]


WRAPPERS = {
    "file": lambda line: [line],
    "docker json-file": _docker,
    "cri": lambda line: [f"2026-11-22T17:39:55.315000000Z stdout {tag} {piece}" for piece, tag in _cut(line)],
    "kubectl logs --timestamps": lambda line: [f"2026-11-22T17:39:55.315000000Z {line}"],
    "kubectl logs --prefix": lambda line: [f"[pod/kafka-0/kafka] {line}"],
    "docker compose": lambda line: [f"kafka-1  | {line}"],
    "journalctl": lambda line: [f"Nov 22 17:39:55 host kafka[12]: {line}"],
    "journalctl -o short-iso": lambda line: [f"2026-11-22T17:39:55+0000 host kafka[12]: {line}"],
    "journalctl -o json": _journald,
    "journalctl -o json with a color": lambda line: [
        json.dumps({"MESSAGE": list(f"\33[36m{line}".encode()), "__REALTIME_TIMESTAMP": "1795369195315000"})
    ],
    "fluent bit": _fluent_bit,
    "fluent bit's file": _fluent_bit_file,
    "fluentd": _fluentd,
    "logcli -o jsonl": lambda line: [_json(labels={"app": "kafka"}, line=line, timestamp=_ISO)],
    "filebeat": lambda line: [_json(**{"@timestamp": "2026-11-22T17:40:01.002Z"}, message=line, stream="stdout")],
}
"""By name: functions that return the lines of a line."""
