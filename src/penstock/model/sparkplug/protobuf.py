"""The wire format of protocol buffers: the positions and values of the fields of a message.

Only offsets are found; nothing is copied. What a field means is for whoever knows the message.
"""

from collections.abc import Iterator

from penstock.model.errors import ContentError

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""The wire types of fields: the last three bits of a key."""

Field = tuple[int, int, int, int]
"""A field: its key (number * 8 + how it is written), its value, where it starts, where it stops.

The value of a `VARINT` is the number, without sign; of the others it is the place where their bytes start.
"""

_MAX_KEY = (1 << 32) - 1
_64_BITS = (1 << 64) - 1


def key(number: int, written: int) -> int:
    """Return the key of a field."""
    return number << 3 | written


def fields(data: bytes, start: int, stop: int) -> Iterator[Field]:
    """Yield the fields of the message between two places, in order; raises `ContentError` where it is damaged."""
    at = start
    try:
        while at < stop:
            start = at
            tag, at = data[at], at + 1
            if tag > 0x7F:
                tag, at = varint(data, start)
            written = tag & 7
            if written == VARINT:
                value, at = data[at], at + 1
                if value > 0x7F:
                    value, at = varint(data, at - 1)
            elif written == LENGTH:
                size, value = data[at], at + 1
                if size > 0x7F:
                    size, value = varint(data, at)
                at = value + size
            elif written in _SIZES:
                value, at = at, at + _SIZES[written]
            else:
                raise ContentError(f"the field at byte {start} has the unknown wire type {written}")
            if at > stop:
                raise IndexError
            if not 8 <= tag <= _MAX_KEY:
                raise ContentError(f"the field at byte {start} has the invalid number {tag >> 3}")
            yield tag, value, start, at
    except IndexError:
        raise ContentError(f"the field at byte {start} is cut short") from None


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of at most 64 bits, seven in a byte, the lowest first; and the place after it.

    Raises `IndexError` at the end of the data, and `ContentError` for a number that is too long.
    """
    number = 0
    for shift in _SHIFTS:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & _64_BITS, at
    raise ContentError(f"the number before byte {at} is too long")


def length_field(tag: int, body: bytes) -> bytes:
    """Return a field with a length, written."""
    return write_varint(tag) + write_varint(len(body)) + body


def varint_field(tag: int, number: int) -> bytes:
    """Return a field with a number that has no sign, written."""
    return write_varint(tag) + write_varint(number)


def write_varint(number: int) -> bytes:
    """Return a number as `varint` reads it."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_SIZES = {FIXED64: 8, FIXED32: 4}
_SHIFTS = range(0, 70, 7)
