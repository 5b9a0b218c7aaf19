"""The wire format of protocol buffers: where the fields of a message begin and end, and what stands in them.

Only offsets are found; nothing is copied. What a field means is for whoever knows the message.
"""

from collections.abc import Iterator

from penstock.model.errors import ContentError

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""How a field is written: the last three bits of its key."""

Field = tuple[int, int, int, int]
"""A field: its key (number * 8 + how it is written), its value, where it starts, where it stops.

The value of a `VARINT` is the number, without sign; of the others it is the place where their bytes start.
"""

_LONGEST_VARINT = 10
_MOST_KEY = (1 << 32) - 1
_64_BITS = (1 << 64) - 1


def key(number: int, written: int) -> int:
    """The key of a field."""
    return number << 3 | written


def fields(data: bytes, start: int, stop: int) -> Iterator[Field]:
    """The fields of the message between two places, in order; raises `ContentError` where it is damaged."""
    at = start
    while at < stop:
        start = at
        tag = data[at]
        at += 1
        if tag > 0x7F:
            tag, at = varint(data, start, stop)
        match tag & 7:
            case 0:  # VARINT
                value, at = varint(data, at, stop)
            case 2:  # LENGTH
                size, value = varint(data, at, stop)
                at = value + size
            case 1:  # FIXED64
                value = at
                at += 8
            case 5:  # FIXED32
                value = at
                at += 4
            case written:
                raise ContentError(f"the field at byte {start} is written in a way that there is not: {written}")
        if at > stop:
            raise ContentError(f"the field at byte {start} is cut short")
        if not 8 <= tag <= _MOST_KEY:
            raise ContentError(f"the field at byte {start} has a number that there is not: {tag >> 3}")
        yield tag, value, start, at


def varint(data: bytes, start: int, stop: int) -> tuple[int, int]:
    """A number of at most 64 bits, seven in a byte, the lowest first; and the place after it."""
    number = shift = 0
    for at in range(start, min(stop, start + _LONGEST_VARINT)):
        byte = data[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & _64_BITS, at + 1
        shift += 7
    raise ContentError(f"the number at byte {start} is cut short or too long")
