"""Frames with random changes, such as a hostile or defective peer may send."""

import random

_LENGTHS = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x7f\xff",
    b"\xff\xff",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x10",
    b"\xff\xff\xff\xff\xff\x01",
    b"\x80\x00",
    b"\x00",
    b"\x01",
)
"""Lengths as int32, as int16 and as varints: at the edges, too long for a varint, negative, null and empty."""


def mutated(chance: random.Random, frame: bytes, other: bytes) -> bytes:
    """Return a frame with one to three changes, some of which insert bytes of `other`."""
    changed = bytearray(frame)
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(changed))
        match chance.randrange(7):
            case 0:
                changed[at : at + 1] = chance.randbytes(1)
            case 1:
                changed[at:at] = chance.randbytes(chance.randint(1, 4))
            case 2:
                del changed[at : at + chance.randint(1, 4)]
            case 3:
                del changed[at:]
            case 4:
                length = chance.choice(_LENGTHS)
                changed[at : at + len(length)] = length
            case 5:
                changed[at:at] = changed[at : at + chance.randint(1, 40)]
            case _:
                start = chance.randint(0, len(other))
                changed[at : at + chance.randint(0, 8)] = other[start : start + chance.randint(1, 40)]
    return bytes(changed)
