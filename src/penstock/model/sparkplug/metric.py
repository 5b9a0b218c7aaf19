"""A metric as a record, for conditions: its value, type, time, properties and flags."""

from penstock.model.errors import ContentError
from penstock.model.sparkplug.payload import OF_METRIC, PayloadDecoder, is_signed_or_large, value_keys
from penstock.model.sparkplug.protobuf import LENGTH, VARINT, fields, key
from penstock.model.sparkplug.values import moment
from penstock.model.values import Value, unsigned

# fmt: off
TYPES = (
    "Unknown", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float", "Double",
    "Boolean", "String", "DateTime", "Text", "UUID", "DataSet", "Bytes", "File", "Template", "PropertySet",
    "PropertySetList", "Int8Array", "Int16Array", "Int32Array", "Int64Array", "UInt8Array", "UInt16Array",
    "UInt32Array", "UInt64Array", "FloatArray", "DoubleArray", "BooleanArray", "StringArray", "DateTimeArray",
)
# fmt: on
"""Names of data types, by number."""

Record = dict[str, Value]

_FLAGS = {key(5, VARINT): "historical", key(6, VARINT): "transient"}
_ALIAS, _TIMESTAMP, _DATATYPE, _NULL = key(2, VARINT), key(3, VARINT), key(4, VARINT), key(7, VARINT)
_PROPERTIES = key(9, LENGTH)
_PROPERTY_KEY, _PROPERTY_VALUE = key(1, LENGTH), key(2, LENGTH)
_PROPERTY_TYPE, _PROPERTY_NULL = key(1, VARINT), key(2, VARINT)
_PROPERTY_SET, _PROPERTY_SETS = key(9, LENGTH), key(10, LENGTH)


def type_name(number: int) -> str:
    """Return the norm's name of a data type."""
    return TYPES[number] if number < len(TYPES) else f"Type{number}"


def read_metric(payload: bytes, body: int, stop: int, birth: Record | None = None) -> Record:
    """Return the metric between two places: `value`, `type`, `timestamp`, `properties`, `historical`, `transient`.

    The type, and properties that a report does not repeat, are taken from the birth certificate. Raises `ContentError`.
    """
    try:
        return _Metric(payload).record(body, stop, birth or {})
    except UnicodeDecodeError:
        raise ContentError("not Sparkplug B: a string is not UTF-8") from None


class _Metric(PayloadDecoder):
    """A decoder of one metric."""

    __slots__ = ()

    def record(self, start: int, stop: int, birth: Record) -> Record:
        """Return the record of a metric, completed from its birth certificate."""
        record: Record = {"historical": False, "transient": False}
        properties: Record = dict(birth.get("properties", {}))
        type_ = born_as = TYPES.index(birth["type"]) if birth.get("type") in TYPES else 0
        is_null = False
        place: tuple[int, int, int] | None = None
        for tag, value, _, end in fields(self._data, start, stop):
            if tag == _TIMESTAMP:
                record["timestamp"] = moment(value)
            elif tag == _ALIAS:
                record["alias"] = unsigned(value)
            elif tag == _DATATYPE:
                type_ = value & 0xFFFF_FFFF
            elif tag == _NULL:
                is_null = value != 0
            elif tag in _FLAGS:
                record[_FLAGS[tag]] = value != 0
            elif tag == _PROPERTIES:
                properties |= self._property_set(value, end, 2)
            elif (kind := OF_METRIC.get(tag)) is not None:
                place = self._single(place, kind, value, end)
        # If the type differs from the birth's, or nobody has said if there is a sign: no condition can use the value.
        is_unsure = not type_ and place is not None and is_signed_or_large(*place[:2])
        if (not born_as or type_ == born_as) and not is_unsure:
            record["value"] = None if is_null or place is None else self._value(*place, type_, 1)
        record["type"] = type_name(type_)
        record["properties"] = properties
        return record

    def _property_set(self, start: int, stop: int, depth: int) -> Record:
        self._count(0, depth)  # before what is inside: it may be nested without end
        keys: list[str] = []
        values: list[Value] = []
        for tag, value, _, end in fields(self._data, start, stop):
            if tag == _PROPERTY_KEY:
                keys.append(self._text(value, end))
            elif tag == _PROPERTY_VALUE:
                values.append(self._property(value, end, depth))
        if len(keys) != len(values):
            raise ContentError(f"the properties at byte {start} have {len(keys)} keys and {len(values)} values")
        self._count(len(keys), depth)
        return dict(zip(keys, values, strict=True))

    def _property(self, start: int, stop: int, depth: int) -> Value:
        type_ = 0
        is_null = False
        place: tuple[int, int, int] | None = None
        inside: Value = None
        for tag, value, _, end in fields(self._data, start, stop):
            if tag == _PROPERTY_TYPE:
                type_ = value & 0xFFFF_FFFF
            elif tag == _PROPERTY_NULL:
                is_null = value != 0
            elif tag == _PROPERTY_SET:
                inside = self._property_set(value, end, depth + 1)
            elif tag == _PROPERTY_SETS:
                sets = (field for field in fields(self._data, value, end) if field[0] == _PROPERTY_KEY)
                inside = [self._property_set(at, to, depth + 2) for _, at, _, to in sets]
            elif (kind := _OF_PROPERTY.get(tag)) is not None:
                place = self._single(place, kind, value, end)
        if is_null or place is None:
            return None if is_null else inside
        return self._value(*place, type_, depth)


_OF_PROPERTY = value_keys(3, 5)
"""int, long, float, double, boolean, string."""
