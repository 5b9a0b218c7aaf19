"""Sparkplug B payloads as attributes; fields have the numbers of the norm, section 6.4.

What only the birth certificate says is not known here: the name behind an alias, and the type of a metric.
"""

import struct

from penstock.model.content.bounds import MAX_DEPTH, MAX_NODES
from penstock.model.errors import BoundError, ContentError
from penstock.model.sparkplug.protobuf import FIXED32, FIXED64, LENGTH, VARINT, fields, key, varint
from penstock.model.sparkplug.topic import NAMESPACE, OF_DEVICES, OF_NODES, STATE
from penstock.model.sparkplug.values import array_of, integer, moment
from penstock.model.values import Value, unsigned

_TYPES = OF_NODES | OF_DEVICES

Places = list[tuple[int, int]]
"""Positions of parts of the payload: start and stop."""


def is_sparkplug(topic: str) -> bool:
    """Return whether the norm says that what is published to this topic is a Sparkplug B payload."""
    if not topic.startswith(NAMESPACE):
        return False
    levels = topic.split("/")
    return levels[0] == NAMESPACE and 4 <= len(levels) <= 5 and levels[1] != STATE and levels[2] in _TYPES


def read_sparkplug(payload: bytes) -> dict[str, Value]:
    """Return the attributes of a Sparkplug B payload. Raises `ContentError`.

    `metrics` has values by name, `aliases` those of metrics without a name; `timestamp`, `seq`, `uuid` and `body` are
    there if the payload has them.
    """
    try:
        return PayloadDecoder(payload).read()
    except UnicodeDecodeError:
        raise ContentError("not Sparkplug B: a string is not UTF-8") from None
    except BoundError:
        raise
    except ContentError as error:
        raise ContentError(f"not Sparkplug B: {error}") from None


# The ways to write a value. Their fields have consecutive numbers, in this order.
_INT, _LONG, _FLOAT, _DOUBLE, _BOOLEAN, _STRING, _BYTES, _DATA_SET, _TEMPLATE = range(9)
_WRITTEN = (VARINT, VARINT, FIXED32, FIXED64, VARINT, LENGTH, LENGTH, LENGTH, LENGTH)


def value_keys(first: int, last: int) -> dict[int, int]:
    """Return the ways to write a value by their keys, in a message where the first of them has this number."""
    return {key(first + kind, written): kind for kind, written in enumerate(_WRITTEN[: last + 1])}


OF_METRIC = value_keys(10, _TEMPLATE)
_OF_PARAMETER = value_keys(3, _STRING)
_OF_CELL = value_keys(1, _STRING)


def is_signed_or_large(kind: int, value: int) -> bool:
    """Return whether it depends on its type if a number is negative or large."""
    return bool((kind == _INT and value >> 31) or (kind == _LONG and value >> 63))


_float = struct.Struct("<f").unpack_from
_double = struct.Struct("<d").unpack_from


class PayloadDecoder:
    """One payload on its way to attributes; it counts what it has decoded, and stops at the bounds."""

    __slots__ = ("_data", "_nodes")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._nodes = 0

    def read(self) -> dict[str, Value]:
        attributes: dict[str, Value] = {}
        metrics: Places = []
        for tag, value, _, stop in fields(self._data, 0, len(self._data)):
            match tag:
                case 0x08:
                    attributes["timestamp"] = moment(value)
                case 0x12:
                    metrics.append((value, stop))
                case 0x18:
                    attributes["seq"] = unsigned(value)
                case 0x22:
                    attributes["uuid"] = self._text(value, stop)
                case 0x2A:
                    attributes["body"] = self._data[value:stop]
        attributes["metrics"], attributes["aliases"] = self._metrics(metrics, 1)
        return attributes

    def _metrics(self, places: Places, depth: int) -> tuple[dict[str, Value], dict[int, Value]]:
        """Return the values of metrics by name, and by alias if they have no name. The last value of a name counts."""
        self._count(len(places), depth)
        named: dict[str, Value] = {}
        aliased: dict[int, Value] = {}
        for start, stop in places:
            name, alias, value = self._metric(start, stop, depth + 1)
            if name or (name is not None and alias is None):
                named[name] = value
            elif alias is not None:
                aliased[alias] = value
            else:
                raise ContentError(f"the metric at byte {start} has neither a name nor an alias")
        return named, aliased

    def _metric(self, start: int, stop: int, depth: int) -> tuple[str | None, int | None, Value]:
        name: str | None = None
        alias: int | None = None
        is_null = False
        type_ = 0
        place: tuple[int, int, int] | None = None
        for tag, value, _, end in fields(self._data, start, stop):
            if tag == 0x0A:
                name = self._text(value, end)
            elif tag == 0x10:
                alias = unsigned(value)
            elif tag == 0x20:
                type_ = value & 0xFFFF_FFFF
            elif tag == 0x38:
                is_null = value != 0
            elif (kind := OF_METRIC.get(tag)) is not None:
                place = self._single(place, kind, value, end)
        return name, alias, None if is_null or place is None else self._value(*place, type_, depth)

    def _value(self, kind: int, value: int, stop: int, type_: int, depth: int) -> Value:
        if kind == _INT:
            if value >> 32 and value >> 31 != (1 << 33) - 1:  # but some writers extend the sign to 64 bits
                raise ContentError(f"{value} has more than 32 bits, in a field of 32")
            return integer(value & 0xFFFF_FFFF, type_, 32)
        if kind == _LONG:
            return integer(value, type_, 64)
        if kind == _FLOAT:
            return _float(self._data, value)[0]
        if kind == _DOUBLE:
            return _double(self._data, value)[0]
        if kind == _BOOLEAN:
            return value != 0
        if kind == _STRING:
            return self._text(value, stop)
        if kind == _BYTES:
            return self._bytes(value, stop, type_, depth)
        return self._data_set(value, stop, depth) if kind == _DATA_SET else self._template(value, stop, depth)

    def _bytes(self, start: int, stop: int, type_: int, depth: int) -> Value:
        value = array_of(self._data[start:stop], type_)
        if type(value) is list:
            self._count(len(value), depth)
        return value

    def _data_set(self, start: int, stop: int, depth: int) -> Value:
        """Return a data set: `columns` has the names, `rows` a map for each row."""
        columns: list[str] = []
        types: list[int] = []
        rows: Places = []
        for tag, value, _, end in fields(self._data, start, stop):
            match tag:
                case 0x12:
                    columns.append(self._text(value, end))
                case 0x18:
                    types.append(value & 0xFFFF_FFFF)
                case 0x1A:
                    types.extend(self._packed(value, end))
                case 0x22:
                    rows.append((value, end))
        if len(columns) != len(types):
            raise ContentError(f"the data set at byte {start} has {len(columns)} columns and {len(types)} types")
        self._count(len(columns) * (len(rows) + 1) + len(rows), depth + 2)
        return {"columns": columns, "rows": [self._row(*row, columns, types, depth) for row in rows]}

    def _row(self, start: int, stop: int, columns: list[str], types: list[int], depth: int) -> dict[str, Value]:
        places = [(value, end) for tag, value, _, end in fields(self._data, start, stop) if tag == 0x0A]
        if len(places) != len(columns):
            raise ContentError(f"the row at byte {start} has {len(places)} elements for {len(columns)} columns")
        return {
            column: self._cell(*place, type_, depth)
            for column, place, type_ in zip(columns, places, types, strict=True)
        }

    def _cell(self, start: int, stop: int, type_: int, depth: int) -> Value:
        place: tuple[int, int, int] | None = None
        for tag, value, _, end in fields(self._data, start, stop):
            if (kind := _OF_CELL.get(tag)) is not None:
                place = self._single(place, kind, value, end)
        return None if place is None else self._value(*place, type_, depth)

    def _template(self, start: int, stop: int, depth: int) -> Value:
        """Return a template as a payload: `parameters` by name; `version`, `template_ref`, `is_definition` if set."""
        attributes: dict[str, Value] = {}
        metrics: Places = []
        parameters: Places = []
        for tag, value, _, end in fields(self._data, start, stop):
            match tag:
                case 0x0A:
                    attributes["version"] = self._text(value, end)
                case 0x12:
                    metrics.append((value, end))
                case 0x1A:
                    parameters.append((value, end))
                case 0x22:
                    attributes["template_ref"] = self._text(value, end)
                case 0x28:
                    attributes["is_definition"] = value != 0
        self._count(len(parameters), depth + 1)
        attributes["parameters"] = dict(self._parameter(*place, depth) for place in parameters)
        attributes["metrics"], attributes["aliases"] = self._metrics(metrics, depth + 1)
        return attributes

    def _parameter(self, start: int, stop: int, depth: int) -> tuple[str, Value]:
        name, type_ = "", 0
        place: tuple[int, int, int] | None = None
        for tag, value, _, end in fields(self._data, start, stop):
            if tag == 0x0A:
                name = self._text(value, end)
            elif tag == 0x10:
                type_ = value & 0xFFFF_FFFF
            elif (kind := _OF_PARAMETER.get(tag)) is not None:
                place = self._single(place, kind, value, end)
        return name, None if place is None else self._value(*place, type_, depth)

    def _packed(self, start: int, stop: int) -> list[int]:
        """Return repeated numbers that are packed one after the other, as newer writers write them."""
        data, numbers = self._data[start:stop], []
        at = 0
        try:
            while at < len(data):
                number, at = varint(data, at)
                numbers.append(number & 0xFFFF_FFFF)
        except IndexError:
            raise ContentError(f"the numbers at byte {start} are cut short") from None
        return numbers

    def _text(self, start: int, stop: int) -> str:
        return self._data[start:stop].decode()

    def _count(self, nodes: int, depth: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise BoundError(f"more than {MAX_NODES} Sparkplug B values")
        if depth > MAX_DEPTH:
            raise BoundError(f"more than {MAX_DEPTH} Sparkplug B values inside each other")

    @staticmethod
    def _single(place: tuple[int, int, int] | None, kind: int, value: int, stop: int) -> tuple[int, int, int]:
        """Return the place of the only value. Readers differ in what they make of two, so that two could hide one."""
        if place is not None:
            raise ContentError(f"there are two values where one is expected, up to byte {stop}")
        return kind, value, stop
