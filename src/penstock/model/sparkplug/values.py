"""Numbers, times and arrays as Sparkplug B writes them; types are named by the numbers of its norm, section 6.4."""

import struct
from collections.abc import Callable, Iterable

from penstock.model.content.bounds import MAX_NODES
from penstock.model.errors import BoundError, ContentError
from penstock.model.values import LAST_SECOND, Timestamp, Value, unsigned

_SIGNED = {1: 8, 2: 16, 3: 32, 4: 64}
_UNSIGNED = {5: 8, 6: 16, 7: 32}
"""The width of Int8 to Int64, and of UInt8 to UInt32."""
_DATE_TIME = 13
_INT_WIDTH = 32


def integer(number: int, type_: int, width: int) -> Value:
    """Return the value that a number of 32 or 64 bits without sign stands for: of a signed type, of a time, or itself.

    Raises `ContentError` if it is no value of the type: readers differ in what they make of it.
    """
    if bits := _SIGNED.get(type_):
        half = 1 << bits - 1
        signed = number - (1 << width) if number >> width - 1 else number
        if width == _INT_WIDTH and half <= signed < 2 * half:  # in two's complement of its own width
            signed -= 2 * half
        if not -half <= signed < half:
            raise ContentError(f"{signed} does not fit the type of its metric: Int{bits}")
        return signed
    if number >> _UNSIGNED.get(type_, width):
        raise ContentError(f"{number} does not fit the type of its metric: UInt{_UNSIGNED[type_]}")
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
