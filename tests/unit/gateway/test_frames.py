"""A stream of bytes cut into frames."""

import pytest

from quota.gateway.frames import FrameStream


def stream(*data):
    made = FrameStream()
    for each in data:
        assert made.add(each) == b""
    return made


def test_a_length_is_complete_at_its_fourth_byte():
    """The length is signed."""
    made = stream(b"\xff\xff\xff")
    assert made.length is None
    made.add(b"\xff")
    assert made.length == -1


def test_a_frame_is_taken_whole_without_its_length():
    made = stream(b"\0\0\0\x03ab", b"c\0\0\0\x01d")
    assert made.is_complete
    assert made.take() == b"abc"
    assert (made.length, made.take(), made.length, len(made)) == (1, b"d", None, 0)


def test_a_prefix_ends_with_the_frame():
    made = stream(b"\0\0\0\x03abcdef")
    assert (made.prefix(2), made.prefix(100)) == (b"ab", b"abc")


@pytest.mark.parametrize("start", [b"", b"\0", b"\0\0\0\x09a"])
def test_a_partial_frame_is_not_complete(start):
    assert not stream(start).is_complete


def test_a_frame_is_forwarded_as_its_bytes_arrive():
    """The length is forwarded, too; no bytes are buffered."""
    made = stream(b"\0\0\0\x05ab")
    assert made.pass_on() == b"\0\0\0\x05ab"
    assert made.is_passing
    assert (made.add(b"c"), len(made), made.length) == (b"c", 0, None)
    assert made.add(b"de\0\0\0\x01f") == b"de"
    assert not made.is_passing
    assert made.take() == b"f"


def test_a_complete_frame_is_forwarded_at_once():
    made = stream(b"\0\0\0\x01a\0\0\0\x01b")
    assert (made.pass_on(), made.is_passing, made.take()) == (b"\0\0\0\x01a", False, b"b")
