"""Certificates as DER: the parts that identify their owner, as they are encoded, and the owner's name.

A certificate is read after TLS has verified it, so that its structure is right; what is not raises `ValueError`.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

_SEQUENCE = 0x30
_VERSION, EXTENSIONS = 0xA0, 0xA3
"""The tags of the first and the last field."""
_VALIDITY, _SUBJECT = 3, 4
"""The indexes of the times of validity and of the subject among the fields after the version."""
_TIMES = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
"""The formats of times, by tag: UTCTime, until 2049, and GeneralizedTime."""
_LONG_LENGTH = 0x80

_ALTERNATIVE_NAMES = bytes.fromhex("551d11")
_STRINGS = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E})
"""The tags of strings: UTF8, Printable, T61, IA5, General, Universal, BMP."""
_KEYWORDS = {
    "550403": "CN",
    "550406": "C",
    "550407": "L",
    "550408": "ST",
    "550409": "STREET",
    "55040a": "O",
    "55040b": "OU",
    "0992268993f22c640101": "UID",
    "0992268993f22c640119": "DC",
}
"""The attributes that RFC 2253 has keywords for, by their object identifiers."""
_ESCAPED = {ord(character): f"\\{character}" for character in ',=+<>#;"\\'} | {0: "\\00"}
_SPACE = " \r"


class Element(NamedTuple):
    """An element in DER: `whole` has its tag and length, too."""

    tag: int
    content: bytes
    whole: bytes


def encode(tag: int, content: bytes) -> bytes:
    """Return an element."""
    size = len(content)
    if size < _LONG_LENGTH:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, _LONG_LENGTH | len(length)]) + length + content


def sequence(*elements: bytes) -> bytes:
    """Return a sequence."""
    return encode(_SEQUENCE, b"".join(elements))


def elements(data: bytes) -> Iterator[Element]:
    """Yield the elements that follow one another."""
    at = 0
    while at < len(data):
        begin, length, at = at, int.from_bytes(data[at + 1 : at + 2]), at + 2
        if length >= _LONG_LENGTH:
            size = length - _LONG_LENGTH
            length, at = int.from_bytes(data[at : at + size]), at + size
        end = at + length
        if end > len(data):
            raise ValueError("the certificate is truncated")
        yield Element(data[begin], data[at:end], data[begin:end])
        at = end


def subject_of(certificate: bytes) -> bytes:
    """Return the subject."""
    return _fields(certificate)[_SUBJECT].whole


def end_of(certificate: bytes) -> float:
    """Return the time until which it is valid [epoch s]."""
    _, end = elements(_fields(certificate)[_VALIDITY].content)
    return datetime.strptime(end.content.decode(), _TIMES[end.tag]).replace(tzinfo=UTC).timestamp()


def alternative_names_of(certificate: bytes) -> bytes:
    """Return the extension of alternative names; nothing if there is none."""
    last = _fields(certificate)[-1]
    if last.tag != EXTENSIONS:
        return b""
    (extensions,) = elements(last.content)
    for extension in elements(extensions.content):
        if next(elements(extension.content)).content == _ALTERNATIVE_NAMES:
            return extension.whole
    return b""


def name_of(subject: bytes) -> str:
    """Return a subject as RFC 2253 writes it, in the form of Java's `X500Principal.getName`."""
    (names,) = elements(subject)
    relative = [[_attribute(pair.content) for pair in elements(name.content)] for name in elements(names.content)]
    return ",".join("+".join(attributes) for attributes in reversed(relative))


def _fields(certificate: bytes) -> list[Element]:
    """Return the fields that the signature covers, without the version."""
    (whole,) = elements(certificate)
    fields = list(elements(next(elements(whole.content)).content))
    return fields[fields[0].tag == _VERSION :]


def _attribute(content: bytes) -> str:
    kind, value = elements(content)
    keyword = _KEYWORDS.get(kind.content.hex())
    if keyword is None or value.tag not in _STRINGS:
        return f"{keyword or _dotted(kind.content)}=#{value.whole.hex()}"
    text = value.content.decode()  # of each kind of string, as Java does
    begin, end = len(text) - len(text.lstrip(_SPACE)), len(text.rstrip(_SPACE))
    middle = text[begin:end].translate(_ESCAPED)
    return f"{keyword}={_spaced(text[:begin])}{middle}{_spaced(text[max(begin, end) :])}"


def _spaced(text: str) -> str:
    return "".join(f"\\{character}" for character in text)


def _dotted(identifier: bytes) -> str:
    numbers, number = [], 0
    for byte in identifier:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))
