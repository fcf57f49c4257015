"""The lines of a log as JSON layouts, container runtimes and shippers wrap and cut them."""

import re
from contextlib import suppress

import msgspec

from quota.errors import BadRecord

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

_TIMES = re.compile(
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
        times = _TIMES.findall(record)
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
