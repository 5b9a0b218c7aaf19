"""Numbers, times and arrays as Sparkplug B writes them; types are named by the numbers of its norm, section 6.4."""

import struct
from collections.abc import Callable, Iterable

from penstock.model.content.bounds import MAX_NODES
from penstock.model.errors import BoundError, ContentError
from penstock.model.values import LAST_SECOND, Timestamp, Value, unsigned

_BITS = {1: 8, 2: 16, 3: 32, 4: 64}
"""The width of Int8 to Int64."""
_DATE_TIME = 13


def integer(number: int, type_: int) -> Value:
    """Return the value that a number without sign stands for: of a signed type, of a time, or itself."""
    if bits := _BITS.get(type_):
        return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)  # two's complement, in as many bits
    return moment(number) if type_ == _DATE_TIME else unsigned(number)


def moment(milliseconds: int) -> Timestamp | int:
    """Return a time since 1970; beyond the year 9999 there are no timestamps, so it stays a number."""
    return Timestamp(milliseconds * 1_000_000) if milliseconds // 1000 <= LAST_SECOND else unsigned(milliseconds)


def array_of(data: bytes, type_: int) -> Value:
    """Return the list that an array's bytes are; bytes of any other type are themselves. Raises `ContentError`."""
    read = _ARRAYS.get(type_)
    return read(data) if read else data


def _numbers(code: str, of_number: Callable[[int], Value] | None = None) -> Callable[[bytes], list[Value]]:
    size = struct.calcsize(code)

    def read(data: bytes) -> list[Value]:
        if len(data) % size:
            raise ContentError(f"an array of elements of {size} bytes has {len(data)} bytes")
        numbers: Iterable[Value] = struct.unpack(f"<{len(data) // size}{code}", data)
        return list(map(of_number, numbers)) if of_number else list(numbers)

    return read


def _booleans(data: bytes) -> list[Value]:
    """Decode booleans: their count in four bytes, then eight to a byte, the highest bit first."""
    count = int.from_bytes(data[:4], "little")
    if len(data) != 4 + (count + 7) // 8:
        raise ContentError(f"an array of {count} booleans has {len(data)} bytes")
    if count > MAX_NODES:  # checked here, as the list would be 64 times as large as the payload
        raise BoundError(f"more than {MAX_NODES} Sparkplug B values")
    return [bool(data[4 + at // 8] & 0x80 >> at % 8) for at in range(count)]


def _strings(data: bytes) -> list[Value]:
    """Decode strings that each end with a zero byte."""
    *strings, rest = data.split(b"\0")
    if rest:
        raise ContentError("the last string of an array does not end")
    return [string.decode() for string in strings]


_ARRAYS: dict[int, Callable[[bytes], list[Value]]] = {
    22: _numbers("b"),
    23: _numbers("h"),
    24: _numbers("i"),
    25: _numbers("q"),
    26: _numbers("B"),
    27: _numbers("H"),
    28: _numbers("I"),
    29: _numbers("Q", unsigned),
    30: _numbers("f"),
    31: _numbers("d"),
    32: _booleans,
    33: _strings,
    34: _numbers("Q", moment),
}
