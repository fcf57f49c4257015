"""Varints and tagged fields, as the protocol guide spells them."""

import pytest

from quota.wire.primitives import (
    Malformed,
    Unwritable,
    read_tags,
    read_uvarint,
    write_tags,
    write_uvarint,
)


def test_a_varint_may_have_more_bytes_than_it_needs():
    """Kafka accepts it too, but never writes it."""
    assert read_uvarint(bytes.fromhex("8000"), 0) == (0, 2)


@pytest.mark.parametrize(
    ("some", "error", "reason"),
    [
        (["8080808080", "ffffffffff01", "808080808000"], Malformed, "longer than 5 bytes"),
        (["8080808008", "ffffffff0f", "ffffffff7f"], Malformed, r"above 2\^31 - 1"),  # which Kafka reads as negative
        (["", "80", "ffffffff"], IndexError, None),
    ],
)
def test_bytes_that_are_no_varint(some, error, reason):
    for data in some:
        with pytest.raises(error, match=reason):
            read_uvarint(bytes.fromhex(data), 0)


@pytest.mark.parametrize("value", [-1, 2**31])
def test_other_numbers_are_not_varints(value):
    with pytest.raises(Unwritable, match="not a number from 0"):
        write_uvarint(value)


def test_tagged_fields_are_written_in_the_order_of_their_tags():
    assert write_tags([(3, b"c"), (0, b"a")], [(2, b"b")]) == bytes.fromhex("03 000161 020162 030163")


def test_a_tag_is_not_written_twice():
    with pytest.raises(Unwritable, match="tag 3 is given twice"):
        write_tags([(3, b"")], [(3, b"x")])


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ("02 0500 0500", "tag 5 comes after tag 5"),
        ("02 0500 0400", "tag 4 comes after tag 5"),
        ("01 0503 abcd", "tag 5 is not as long as it claims: 3 bytes of 2"),
        ("ffffffff07 0500", "2147483647 elements are claimed in 2 bytes"),
        ("03 0100 0200 0300", "more elements"),
    ],
)
def test_malformed_tagged_fields(data, error):
    with pytest.raises(Malformed, match=error):
        read_tags(bytes.fromhex(data), 0, 2)
