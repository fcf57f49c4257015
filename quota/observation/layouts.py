"""The layouts of logs: how loggers, container runtimes and shippers wrap and cut lines, and which times they write."""

import re
from contextlib import suppress
from datetime import datetime, timedelta, timezone, tzinfo

import msgspec

from quota.errors import BadRecord
from quota.text import parse_zone

MARK = b"Completed request:"
"""The beginning of the message of a line."""

SEVERAL = "several messages in one line: end each with a line break"
"""The error of a line in which the first message is not the last. Its requests are not told apart by a search: what
looks like the beginning of another message may be in a client-id."""

_LONGEST_BYTES = 64 * 1024 * 1024
"""The longest line that is joined: the last piece of a stream may never come."""

_WRAPPED = re.compile(rb"(?:\S+\t\S+\t|\S+: \[[\d.]+, |\[\s*|, )?\{|\S+ std(?:out|err) [PF]")
"""The beginning of JSON, also in a list or after the time and the tag of Fluentd or Fluent Bit, and of CRI."""
_OPEN = b"{"
"""The first line of JSON that is printed over several lines, as JsonLayout does unless it is compact."""
_TEXT = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*')
"""The content of a JSON string."""

_TIME_FIELDS = re.compile(
    rb'"(@timestamp|timestamp|timeMillis|time|ts|date|eventTime|_SOURCE_REALTIME_TIMESTAMP|__REALTIME_TIMESTAMP)"'
    rb'\s*(?::|=>)\s*(?:"([^"]*)"|([\d.]+))'
    rb'|"(?:epochSecond|timestampSeconds)"\s*:\s*(\d+)\s*,\s*"(?:nanoOfSecond|timestampNanos)"\s*:\s*(\d+)'
)
"""The fields with times: of layouts (log4j2, ECS, GELF), container runtimes, shippers and journald."""

_STREAM = re.compile(
    rb'"(?:stream|pod_name|container_id|docker_id|_PID|partial_id|CONTAINER_PARTIAL_ID)"\s*:\s*"[^"]*"'
)
_CONTENT = re.compile(rb'"(?:log|message|MESSAGE|short_message|msg)"\s*:\s*"')
_CRI = re.compile(rb"\S+ (std(?:out|err)) ([PF])(?::\S*)? ")
_TAG = re.compile(rb'"(?:_p|logtag)"\s*:\s*"(\w)')
_CUT = re.compile(
    rb'"partial_last"\s*:\s*"false"|"CONTAINER_PARTIAL_MESSAGE"\s*:\s*"true"|"_LINE_BREAK"\s*:\s*"line-max"'
)
_SIGNS_OF_A_CUT = (b"out P", b"err P", b'"P"', b"partial_last", b"CONTAINER_PARTIAL_MESSAGE", b"line-max")
_REQUEST = re.compile(rb'(correlationId|connection)\\*(?:"|u0022)\s*:\s*\\*(?:"|u0022)?([^"\\,]+)')
"""The two fields that identify a request, in a string or not."""
_BYTES = re.compile(rb'("MESSAGE"\s*:\s*)\[([\d,\s]+)\]')

_TIME = re.compile(
    rb"""
    (?<!\d)(?:
      (?:
        (20\d\d)([-/.]?)(0[1-9]|1[0-2])\2([0-3]\d)                              # 2026-11-22, 2026/11/22, 20261122
        | (\d\d?)[ /-](Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[ /-](20\d\d)           # 22 Nov 2026
      )
      [ T:]? ([0-2]\d)(:?)([0-5]\d)\9([0-6]\d) (?:[.,:](\d{1,9}) | (?<=\d{14})(\d{3}))?        # 17:39:55,315, 173955315
      (?:[ ]?(
        Z | (?:UTC|GMT)?[+-]\d\d(?::?\d\d)?
        | (?!DEBUG|TRACE|INFO|WARN|ERROR|FATAL)(?:[A-Z]{2,5}(?=[\] ]|$) | [A-Z][\w/ ]*(?=\]))
      ))?
      | (1\d{9})(?:[.,]?(\d{3})\d*)?                                            # seconds, ms, us or ns of the epoch
    )(?![\w+-])
    """,
    re.VERBOSE,
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_ZONES = {"Z": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3, "JST": 9}
"""The offsets of the names of zones that have one meaning [hours]."""

_AMBIGUOUS = {"AM", "PM", "AST", "BST", "CDT", "CST", "EDT", "EST", "HST", "IST", "MDT", "MST", "PDT", "PST", "SST"}

_STEP_BACK_MS = 1_800_000
"""The times of a log go back by more than this only when clocks are set back at the end of summer time."""


class CutOff(BadRecord):
    """A line whose end is missing."""


def unwrap(line: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the text before the message of a line, times in fields of JSON around it, and the message after its mark.

    The message is in the line, in a string of JSON in the line, in a string of JSON in this one, and so on; it is empty
    in a line without a mark. The fields may be those of a shipper.
    """
    heads: list[bytes] = []
    fields: list[bytes] = []  # of each record
    while (at := line.find(MARK)) >= 0:
        message = line[at + len(MARK) :]
        begin = -1 if message.startswith(b'{"') else line.rfind(b'"', 0, at)
        while begin > 0 and line[begin - 1 : begin] == b"\\":
            begin = line.rfind(b'"', 0, begin)
        if begin < 0:
            own = line[:at] if line[:at].strip() or not fields else fields.pop()  # a layout of JSON has it in a field
            return b" ".join([*heads, own]), b" ".join(fields), message
        end = _text_end(line, begin + 1)
        opened = max(line.find(b"{", 0, begin), 0)
        heads.append(line[:opened])
        record = line[opened:begin] + line[end:]
        if MARK in record:
            _check_single(line[opened : line.rfind(b"}") + 1])
        times = _TIME_FIELDS.findall(record)
        if b'"stream"' in record:  # a container runtime has written the time
            heads += [text for name, text, *_ in times if name == b"time"]
        fields.append(
            b" ".join(text or number or seconds + b"." + nanos.zfill(9) for _, text, number, seconds, nanos in times)
        )
        is_cut = end == len(line)
        try:
            line = msgspec.json.decode(b'"' + line[begin + 1 : end] + b'"', type=str).encode()
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise (CutOff if is_cut else BadRecord)(f"a truncated line, or not JSON: {error}") from None
    return b"", b"", b""


def _check_single(records: bytes) -> None:
    """Check that JSON is one record with one message, which may have a copy of it."""
    try:
        msgspec.json.decode(records, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        if "trailing" in str(error):
            raise BadRecord(f'{SEVERAL} (eventEol="true")') from None
    except RecursionError:
        raise BadRecord("nested too deeply") from None
    if len(set(_REQUEST.findall(records))) > 2:  # noqa: PLR2004
        raise BadRecord("several messages in one record of JSON: write each on a line of its own, such as with jq -c")


def is_wrapped(lines: bytes) -> bool:
    """Return whether lines are of a container runtime, or JSON, as their beginning says."""
    return _WRAPPED.match(lines) is not None


def join(block: bytes, *, at_end: bool = False) -> tuple[bytes, int]:
    """Return the whole lines at the beginning of a block, and their size in it; with `at_end`, all lines.

    Pieces of a line become one line, in the place of the last one. Until that has come, the lines from the first piece
    on are not whole.
    """
    size = len(block) if at_end else block.rfind(b"\n") + 1
    if not size or not is_wrapped(block) or not _has_pieces(block):
        return block[:size], size
    lines: list[bytes] = []
    pending: dict[bytes, list[bytes]] = {}
    at, whole = 0, (0, 0)
    for line in block[:size].removesuffix(b"\n").split(b"\n"):
        at += len(line) + 1
        readable = _BYTES.sub(_as_text, line)
        if line.strip(b", \r") == _OPEN or (_OPEN in pending and line.startswith((b" ", b"\t", b"}"))):
            stream, begin, end, is_cut = _OPEN, 0, len(line), not line.startswith(b"}")
        else:
            stream, begin, end, is_cut = _piece(readable)
        if is_cut:
            pending.setdefault(stream, [readable[:begin]]).append(readable[begin:end])
        elif pieces := pending.pop(stream, None):
            lines.append(b"".join([*pieces, readable[begin:]]))
        else:
            lines.append(readable)
        if not pending:
            whole = len(lines), at
    count, end = whole
    if at_end or size - end > _LONGEST_BYTES:
        lines += map(b"".join, pending.values())
        count, end = len(lines), size
    return b"".join(line + b"\n" for line in lines[:count]), min(end, size)


def _has_pieces(block: bytes) -> bool:
    """Return whether a block may have pieces of lines, or bytes in place of text."""
    if any(sign in block for sign in _SIGNS_OF_A_CUT) or b'"MESSAGE"' in block or block[1:2].isspace():
        return True
    return block.count(b'","stream":"') != block.count(rb'\n","stream":"')


def _piece(line: bytes) -> tuple[bytes, int, int, bool]:
    """Return the stream of a line, the begin and end of its content, and whether it is cut."""
    if match := _CRI.match(line):
        return match[1], match.end(), len(line), match[2] == b"P"
    content = _CONTENT.search(line)
    if content is None:
        return b"no piece", 0, 0, False
    begin = content.end()
    end = _text_end(line, begin)
    record = line[: content.start()] + line[end:]
    if tag := _TAG.search(record):
        is_cut = tag[1] == b"P"
    elif line.startswith(b'{"log":"') and b'"stream"' in record and b'"time"' in record:
        is_cut = not line.endswith(rb"\n", begin, end)  # Docker's json-file
    else:
        is_cut = _CUT.search(record) is not None
    return b"".join(_STREAM.findall(record)), begin, end, is_cut


def _text_end(line: bytes, begin: int) -> int:
    text = _TEXT.match(line, begin)
    return begin if text is None else text.end()


def _as_text(match: re.Match[bytes]) -> bytes:
    """Return a field of journald as a string: with control characters, such as colors, it has a list of bytes."""
    with suppress(ValueError):
        return match[1] + msgspec.json.encode(bytes(map(int, match[2].split(b","))).decode(errors="replace"))
    return match[0]


class LogTime:
    """Reads the times of one log, whose lines are about in the order of their times."""

    def __init__(self, zone: tzinfo) -> None:
        """Start at the beginning of a log, whose times are in this zone where they name none."""
        self._zone = zone
        self._hours: dict[tuple[str, str], tuple[int, int]] = {}
        self._latest = 0

    def read(self, head: bytes) -> tuple[int, int] | None:
        """Return the time in the head of a line [epoch ms], and its resolution [ms]: 1 or 1000; None if it has none.

        Of several times, one with milliseconds goes before others, then one with a zone, then the last one. When clocks
        are set back, an hour occurs twice: the second one begins where the log's times go back.
        """
        best, best_rank = None, -1
        for match in _TIME.finditer(head):
            is_epoch = match[15] is not None
            fraction = match[16] if is_epoch else match[12] or match[13]
            zone = "" if is_epoch else _zone_name(match, head)
            rank = 2 * bool(fraction) + bool(is_epoch or zone)
            if rank >= best_rank and (start := self._start(match, zone)) is not None:
                best, best_rank = (start, (fraction or b"0")[:3].ljust(3, b"0"), 1 if fraction else 1000), rank
        if best is None:
            return None
        (first, repeated), fraction, resolution = best
        at = first + int(fraction)
        if first != repeated and at < self._latest - _STEP_BACK_MS:
            at = repeated + int(fraction)
        self._latest = max(self._latest, at)
        return at, resolution

    def _start(self, match: re.Match[bytes], zone: str) -> tuple[int, int] | None:
        """Return the second of a time [epoch ms], and the later one of the same name; None if it does not exist."""
        if match[15]:
            return int(match[15]) * 1000, int(match[15]) * 1000
        if match[6]:
            date = f"{match[7].decode()}-{_MONTHS.index(match[6].decode()) + 1:02d}-{int(match[5]):02d}"
        else:
            date = b"-".join(match.group(1, 3, 4)).decode()
        hour = f"{date}T{match[8].decode()}"
        starts = self._hours.get((hour, zone))
        if starts is None:
            try:
                starts = self._hours[hour, zone] = self._hour_starts(hour, zone)
            except (ValueError, OverflowError):
                return None
        within = (int(match[10]) * 60 + int(match[11])) * 1000
        return starts[0] + within, starts[1] + within

    def _hour_starts(self, hour: str, zone: str) -> tuple[int, int]:
        """Return the start of an hour [epoch ms], and that of the later hour of the same name."""
        start = datetime.fromisoformat(f"{hour}:00:00").replace(tzinfo=self._zone)
        folds = [start.replace(fold=fold) for fold in (0, 1)]
        if zone:
            named = [fold for fold in folds if fold.tzname() == zone]
            folds = named or [start.replace(tzinfo=_named(zone, self._zone))]
        first, *_, repeated = (round(fold.timestamp() * 1000) for fold in [folds[0], *folds])
        if repeated - first > timedelta(hours=2) / timedelta(milliseconds=1) or repeated < first:
            repeated = first  # an hour that is left out in spring
        return first, repeated


def _zone_name(match: re.Match[bytes], head: bytes) -> str:
    """Return the zone of a time; empty for a word that follows a time and is not known as a zone."""
    zone = (match[14] or b"").decode()
    is_zone = not zone.isalpha() or zone in _ZONES or zone in _AMBIGUOUS or head[match.end() :].startswith(b"]")
    return zone if is_zone else ""


def _named(zone: str, of_log: tzinfo) -> tzinfo:
    if zone in _ZONES:
        return timezone(timedelta(hours=_ZONES[zone]))
    offset = zone.removeprefix("UTC").removeprefix("GMT")
    with suppress(ValueError):
        if not zone.isalpha():
            return parse_zone(offset if len(offset) > len("+00") else f"{offset}:00")
    raise BadRecord(
        f"{zone} is the name of several time zones, or of none, and not one of {of_log}: set observe.time_zone to that "
        "of the brokers, such as America/New_York"
    )
